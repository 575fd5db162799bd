package transcripts

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
)

// renaming maps the numbers of the transcript to those of the sidecar, on one connection. A number is
// learned where it is given and has to be the same from then on.
type renaming struct {
	ids     map[int64]int64 // requests of the sidecar
	epochs  map[string]int64
	streams map[int64]int64
	taken   map[string]bool // numbers of the sidecar that are given, which never come twice
	lastID  int64
}

func newRenaming() *renaming {
	return &renaming{ids: map[int64]int64{}, epochs: map[string]int64{}, streams: map[int64]int64{}, taken: map[string]bool{}}
}

// learn takes the numbers that a message of the sidecar gives.
func (r *renaming) learn(want, got object) error {
	if id := number(want, "id"); id != 0 {
		real := number(got, "id")
		if real != r.lastID+1 {
			return fmt.Errorf("request %d follows request %d", real, r.lastID)
		}
		r.lastID, r.ids[id] = real, real
	}
	switch text(want, "type") {
	case "assign", "promoted", "demoted":
	default:
		return nil
	}
	epoch := number(got, "epoch")
	if err := r.once("epoch", epoch); err != nil {
		return err
	}
	r.epochs[epochName(want)] = epoch
	for _, field := range []string{"sources", "tables", "outputs"} {
		wants, _ := want[field].([]any)
		gots, _ := got[field].([]any)
		if len(wants) != len(gots) {
			return fmt.Errorf("%d %s, want %d", len(gots), field, len(wants))
		}
		for i := range wants {
			real := number(gots[i].(object), "stream")
			if err := r.once("stream", real); err != nil {
				return err
			}
			r.streams[number(wants[i].(object), "stream")] = real
		}
	}
	return nil
}

func (r *renaming) once(what string, n int64) error {
	name := fmt.Sprint(what, " ", n)
	if n == 0 || r.taken[name] {
		return fmt.Errorf("%s was given before", name)
	}
	r.taken[name] = true
	return nil
}

func epochName(o object) string { return fmt.Sprint(text(o, "task"), " ", number(o, "epoch")) }

// real turns a message of the transcript into the sidecar's numbers.
func (r *renaming) real(o object, fromSidecar bool) object {
	out := object{}
	for name, v := range o {
		out[name] = v
	}
	if fromSidecar && o["id"] != nil {
		out["id"] = count(r.ids[number(o, "id")])
	}
	if !fromSidecar && o["re"] != nil {
		out["re"] = count(r.ids[number(o, "re")])
	}
	if o["epoch"] != nil {
		out["epoch"] = count(r.epochs[epochName(o)])
	}
	if o["stream"] != nil {
		out["stream"] = count(r.streams[number(o, "stream")])
	}
	for _, field := range []string{"sources", "tables", "outputs"} {
		list, _ := o[field].([]any)
		if !fromSidecar || len(list) == 0 {
			continue
		}
		renamed := make([]any, len(list))
		for i, v := range list {
			renamed[i] = r.real(v.(object), fromSidecar)
		}
		out[field] = renamed
	}
	if text(o, "type") == "credit" {
		streams := object{}
		for id, limit := range numbers(o["streams"]) {
			n, _ := strconv.ParseInt(id, 10, 64)
			streams[fmt.Sprint(r.streams[n])] = count(limit)
		}
		out["streams"] = streams
	}
	return out
}

func count(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

// frame gives the frame's bytes with the sidecar's stream and epoch. A task's frames come under the
// epoch that the transcript gave it last.
func (r *renaming) frame(b []byte, task string) []byte {
	b = append([]byte(nil), b...)
	stream, epoch := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	binary.LittleEndian.PutUint32(b[4:], uint32(r.streams[int64(stream)]))
	binary.LittleEndian.PutUint32(b[8:], uint32(r.epochs[fmt.Sprint(task, " ", epoch)]))
	return b
}

// same compares a message in the sidecar's numbers with what came. Prose, versions and session names
// are free.
func same(want, got object) bool {
	return reflect.DeepEqual(comparable(want), comparable(got))
}

func comparable(o object) object {
	out := object{}
	for name, v := range o {
		out[name] = v
	}
	delete(out, "message")
	if text(o, "type") == "welcome" {
		delete(out, "session")
		delete(out, "sidecar")
	}
	return out
}
