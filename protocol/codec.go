package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"unicode/utf8"
)

// Message is one control message: a value of a struct of this package.
type Message interface{ Type() string }

func (Hello) Type() string     { return TypeHello }
func (Opened) Type() string    { return TypeOpened }
func (Ready) Type() string     { return TypeReady }
func (Commit) Type() string    { return TypeCommit }
func (Released) Type() string  { return TypeReleased }
func (Locate) Type() string    { return TypeLocate }
func (Progress) Type() string  { return TypeProgress }
func (Welcome) Type() string   { return TypeWelcome }
func (Assign) Type() string    { return TypeAssign }
func (Restoring) Type() string { return TypeRestoring }
func (Restored) Type() string  { return TypeRestored }
func (Promoted) Type() string  { return TypePromoted }
func (Demoted) Type() string   { return TypeDemoted }
func (Revoke) Type() string    { return TypeRevoke }
func (Lost) Type() string      { return TypeLost }
func (Reset) Type() string     { return TypeReset }
func (Committed) Type() string { return TypeCommitted }
func (Aborted) Type() string   { return TypeAborted }
func (Stale) Type() string     { return TypeStale }
func (Unknown) Type() string   { return TypeUnknown }
func (Located) Type() string   { return TypeLocated }
func (Waiting) Type() string   { return TypeWaiting }
func (Credit) Type() string    { return TypeCredit }
func (Error) Type() string     { return TypeError }

// kinds gives the struct of each type.
var kinds = func() map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, m := range []Message{Hello{}, Opened{}, Ready{}, Commit{}, Released{}, Locate{}, Progress{}, Welcome{}, Assign{},
		Restoring{}, Restored{}, Promoted{}, Demoted{}, Revoke{}, Lost{}, Reset{}, Committed{}, Aborted{}, Stale{},
		Unknown{}, Located{}, Waiting{}, Credit{}, Error{}} {
		all[m.Type()] = reflect.TypeOf(m)
	}
	return all
}()

// DecodeError refuses a message.
type DecodeError struct {
	Code    string // CodeBadMessage or CodeUnknownType
	Message string // what is wrong, for the error that answers it
	Re      int64  // the id of the refused request; 0 when it has none that can be read
	Type    string // of the refused message, when it can be read
}

func (e *DecodeError) Error() string { return e.Code + ": " + e.Message }

// Answer is the error message that tells the peer.
func (e *DecodeError) Answer() Error { return Error{Re: e.Re, Code: e.Code, Message: e.Message} }

// Fatal says whether the connection cannot go on: something that is not a request was not
// understood, so the two sides no longer agree on where they are.
func (e *DecodeError) Fatal() bool { return e.Code == CodeBadMessage && e.Re == 0 }

// Encode gives the text message. An error means that m breaks a rule of its fields.
func Encode(m Message) ([]byte, error) {
	v := reflect.ValueOf(m)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if m == nil || kinds[typeOf(m)] != v.Type() {
		return nil, fmt.Errorf("encode: %T is no message", m)
	}
	if err := checkRules(v, ""); err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Type(), err)
	}
	var out bytes.Buffer
	out.WriteString(`{"type":"` + m.Type() + `"`)
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	at := out.Len()
	if err := enc.Encode(v.Interface()); err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Type(), err)
	}
	b := bytes.TrimRight(out.Bytes(), "\n")
	if len(b) == at+len("{}") { // no fields
		return append(b[:at], '}'), nil
	}
	b[at] = ','
	return b, nil
}

func typeOf(m Message) string {
	if v := reflect.ValueOf(m); v.Kind() == reflect.Pointer && v.IsNil() {
		return ""
	}
	return m.Type()
}

// Decode reads a text message. It ignores fields that it does not know, and gives nil without an
// error for a type that it does not know when the message says "optional": true. Every error is a
// *DecodeError. The caller limits the size.
func Decode(b []byte) (Message, error) {
	object, err := parse(b)
	if err != nil {
		return nil, &DecodeError{Code: CodeBadMessage, Message: err.Error()}
	}
	name, ok := object["type"].(string)
	if !ok {
		return nil, &DecodeError{Code: CodeBadMessage, Message: "type: must be there and a string", Re: requestID(object)}
	}
	kind, ok := kinds[name]
	if !ok {
		if object["optional"] == true {
			return nil, nil
		}
		return nil, &DecodeError{Code: CodeUnknownType, Message: fmt.Sprintf("unknown message type %.64q", name), Re: requestID(object), Type: name}
	}
	v := reflect.New(kind).Elem()
	err = assign(v, object, "")
	if err == nil {
		err = checkRules(v, "")
	}
	if err != nil {
		return nil, &DecodeError{Code: CodeBadMessage, Message: name + ": " + err.Error(), Re: requestID(object), Type: name}
	}
	return v.Interface().(Message), nil
}

// parse reads one JSON object and nothing after it.
func parse(b []byte) (map[string]any, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, errors.New("not a JSON object")
		}
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if object == nil {
		return nil, errors.New("not a JSON object")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value in a message")
	}
	return object, nil
}

// requestID gives the id of a message that is refused, if it has a good one.
func requestID(object map[string]any) int64 {
	n, err := integer(object["id"])
	if err != nil || n < 1 {
		return 0
	}
	return n
}

// RequestID gives the id of a request, and 0 for every other message.
func RequestID(m Message) int64 {
	switch m := m.(type) {
	case Hello:
		return m.ID
	case Commit:
		return m.ID
	case Locate:
		return m.ID
	case Assign:
		return m.ID
	case Restored:
		return m.ID
	case Promoted:
		return m.ID
	case Revoke:
		return m.ID
	case Reset:
		return m.ID
	}
	return 0
}
