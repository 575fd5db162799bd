package produce

import "errors"

// RejectedError refuses a commit of which nothing is or will be in Kafka.
type RejectedError struct {
	Code    string // of spec/codes.json
	Message string // what, where, what to do
	Err     error  // what Kafka or the network said; may be nil
}

func (e *RejectedError) Error() string { return "commit refused (" + e.Code + "): " + e.Message }
func (e *RejectedError) Unwrap() error { return e.Err }

// UnknownError says that it cannot be told whether the commit is in Kafka, or that only a part of
// it is.
type UnknownError struct {
	Code    string
	Message string
	Err     error
	Ended   <-chan struct{} // closed when nothing of the commit can land any more
}

func (e *UnknownError) Error() string {
	return "end of the commit unknown (" + e.Code + "): " + e.Message
}
func (e *UnknownError) Unwrap() error { return e.Err }

// ErrStopped is the cause when the producer was stopped before a commit ended.
var ErrStopped = errors.New("producer stopped")

// errDeadline is the cause when DeliveryTimeout went by.
var errDeadline = errors.New("delivery timeout passed")
