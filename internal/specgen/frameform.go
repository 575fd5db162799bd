package specgen

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// Bytes is a key or value in decoded form: null, a string (its UTF-8 bytes), or {"hex": "00ff"}.
// Nil is null.
type Bytes []byte

// MarshalJSON writes text as a string and everything else in hex.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if b == nil {
		return []byte("null"), nil
	}
	if printable(b) {
		return json.Marshal(string(b))
	}
	return json.Marshal(map[string]string{"hex": hex.EncodeToString(b)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (b *Bytes) UnmarshalJSON(raw []byte) error {
	*b = nil
	if string(raw) == "null" {
		return nil
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		*b = append(Bytes{}, s...)
		return nil
	}
	var form struct {
		Hex string `json:"hex"`
	}
	if err := json.Unmarshal(raw, &form); err != nil {
		return err
	}
	data, err := hex.DecodeString(form.Hex)
	*b = append(Bytes{}, data...)
	return err
}

func printable(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for _, c := range b {
		if c < 0x20 || c == 0x7f {
			return false
		}
	}
	return true
}

// Long is a 64-bit number: a JSON number where every language reads it exactly, else a string.
type Long int64

// MarshalJSON writes a number, or a string past 2^53-1.
func (n Long) MarshalJSON() ([]byte, error) {
	s := strconv.FormatInt(int64(n), 10)
	if n > maxInteger || n < -maxInteger {
		return []byte(`"` + s + `"`), nil
	}
	return []byte(s), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Long) UnmarshalJSON(raw []byte) error {
	s := string(raw)
	if unquoted, err := strconv.Unquote(s); err == nil {
		s = unquoted
	}
	v, err := strconv.ParseInt(s, 10, 64)
	*n = Long(v)
	return err
}

// Record is a record in decoded form.
type Record struct {
	Offset    *Long      `json:"offset,omitempty"`    // not in writes frames
	Timestamp *Long      `json:"timestamp,omitempty"` // only with the column
	Key       Bytes      `json:"key"`
	Value     Bytes      `json:"value"`
	Headers   [][2]Bytes `json:"headers,omitempty"`
}

// Frame is a frame in decoded form.
type Frame struct {
	Kind          string   `json:"kind"`
	Stream        uint32   `json:"stream"`
	Epoch         uint32   `json:"epoch"`
	Base          *Long    `json:"base,omitempty"` // records, restore
	Next          *Long    `json:"next,omitempty"`
	Commit        *Long    `json:"commit,omitempty"` // writes
	LogAppendTime bool     `json:"log_append_time,omitempty"`
	Checkpoint    string   `json:"checkpoint,omitempty"`
	Records       []Record `json:"records"`
}
