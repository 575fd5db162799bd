package conformance

import (
	"encoding/json"
	"os"
)

// miniStore is a table in a file: rows and checkpoint change together.
type miniStore struct {
	w          *mini
	path       string
	Rows       map[string][]byte
	Checkpoint string
}

func openStore(w *mini, path string) *miniStore {
	s := &miniStore{w: w, path: path, Rows: map[string][]byte{}}
	if text, err := os.ReadFile(path); err == nil {
		if json.Unmarshal(text, s) != nil || s.Rows == nil {
			s.Rows, s.Checkpoint = map[string][]byte{}, ""
		}
	}
	return s
}

func (s *miniStore) get(key string) *[]byte {
	if s == nil {
		return nil
	}
	if v, ok := s.Rows[key]; ok {
		return &v
	}
	return nil
}

func (s *miniStore) change(rows map[string]*[]byte, checkpoint string) {
	for k, v := range rows {
		if v == nil {
			delete(s.Rows, k)
		} else {
			s.Rows[k] = append([]byte{}, *v...)
		}
	}
	if checkpoint != "" && (s.Checkpoint == "" || !s.w.is("first-checkpoint-kept")) {
		s.Checkpoint = checkpoint
	}
	s.save()
}

func (s *miniStore) wipe() {
	s.Rows, s.Checkpoint = map[string][]byte{}, ""
	s.save()
}

// save replaces the file. A mutant saves the checkpoint at once and the rows only with the next one.
func (s *miniStore) save() {
	whole := struct {
		Rows       map[string][]byte
		Checkpoint string
	}{s.Rows, s.Checkpoint}
	if s.w.is("two-transactions") {
		var before miniStore
		if text, err := os.ReadFile(s.path + ".rows"); err == nil {
			_ = json.Unmarshal(text, &before)
		}
		later, _ := json.Marshal(whole)
		_ = os.WriteFile(s.path+".rows", later, 0o600)
		whole.Rows = before.Rows
	}
	text, err := json.Marshal(whole)
	if err == nil {
		err = os.WriteFile(s.path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(s.path+".new", s.path)
	}
	if err != nil {
		panic(err)
	}
}
