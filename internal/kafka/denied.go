package kafka

import "fmt"

// Codes by which a broker says that the principal lacks a right.
const (
	codeTopicDenied         = 29
	codeGroupDenied         = 30
	codeClusterDenied       = 31
	codeTransactionalDenied = 53
)

// AccessError: Kafka refuses for lack of a right (codes 29 topic, 30 group, 31 cluster, 53
// transactional id). It does not pass by itself: somebody must change an ACL.
type AccessError struct {
	Code      int16
	Principal string // as the broker most likely knows us: "User:alice"
	Resource  string // "topic", "group", "cluster" or "transactional id"
	Name      string // "kafka-cluster" of the cluster
	Operation string // as in ACLs: "Read", "Write", "Describe", ...
}

func (e *AccessError) Error() string {
	resource := e.Resource + " " + e.Name
	if e.Code == codeTransactionalDenied { // the next life of the sidecar has another one
		return fmt.Sprintf("Kafka refuses %s the operation %s on %s: grant %s to %s on all transactional ids that begin with the group's name and a dash, by a prefixed ACL (%s, Kafka error %d)",
			e.Principal, e.Operation, resource, e.Operation, e.Principal, CodeName(e.Code), e.Code)
	}
	return fmt.Sprintf("Kafka refuses %s the operation %s on %s: grant %s to %s on %s with an ACL (%s, Kafka error %d)",
		e.Principal, e.Operation, resource, e.Operation, e.Principal, resource, CodeName(e.Code), e.Code)
}

// For is the same refusal, with the operation that is wanted in the end: who may not even Describe a
// topic needs to Read or Write it, which holds the right to Describe.
func (e *AccessError) For(operation string) *AccessError {
	other := *e
	other.Operation = operation
	return &other
}

// Denied makes the error of a code that says that a right is missing; nil when the code is none of
// the four. The operation is the one that the ACL must allow.
func (c *Client) Denied(code int16, name, operation string) *AccessError {
	e := &AccessError{Code: code, Name: name, Operation: operation}
	switch code {
	case codeTopicDenied:
		e.Resource = "topic"
	case codeGroupDenied:
		e.Resource = "group"
	case codeClusterDenied:
		e.Resource, e.Name = "cluster", "kafka-cluster"
	case codeTransactionalDenied:
		e.Resource = "transactional id"
	default:
		return nil
	}
	e.Principal = c.principal() // it may have to read our certificate
	return e
}

// codeError is the error of a code that a broker answered: one about the right that is missing, if
// that is what the code says.
func (c *Client) codeError(code int16, what, name, operation string) error {
	if denied := c.Denied(code, name, operation); denied != nil {
		return denied
	}
	return &Error{Code: code, What: what}
}

// principal is who we are to the brokers, unless they map names in a way of their own.
func (c *Client) principal() string { return c.auth.principal() }
