package kafka

import (
	"crypto/sha256"
	"strings"
	"testing"
)

// The example of RFC 7677; user "user", password "pencil".
func TestScramIsTheRFCs(t *testing.T) {
	s := newScram(sha256.New, "user", "pencil")
	s.nonce = "rOprNGfwEbeRWgbNEkqO"
	if say, _, _ := s.next(nil); string(say) != "n,,n=user,r=rOprNGfwEbeRWgbNEkqO" {
		t.Errorf("first: %s", say)
	}
	say, done, err := s.next([]byte("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"))
	const want = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	if err != nil || done || string(say) != want {
		t.Fatalf("%s, %v\nwant %s", say, err, want)
	}
	if _, done, err := s.next([]byte("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")); err != nil || !done {
		t.Errorf("the right signature: %v, done %v", err, done)
	}
}

func TestScramTakesNoOther(t *testing.T) {
	const salt = "s=W22ZaJ0SNY7soEsUEjb6gQ=="
	for name, challenge := range map[string]string{
		"another nonce":       "r=somebody,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
		"only our nonce":      "r=NONCE," + salt + ",i=4096",
		"no salt":             "r=NONCEx,i=4096",
		"no number":           "r=NONCEx," + salt + ",i=many",
		"too few iterations":  "r=NONCEx," + salt + ",i=1",
		"too many iterations": "r=NONCEx," + salt + ",i=2000000000",
		"nothing":             "",
	} {
		s := newScram(sha256.New, "user", "pencil")
		s.nonce = "NONCE"
		_, _, _ = s.next(nil)
		if say, done, err := s.next([]byte(challenge)); err == nil || done || len(say) > 0 {
			t.Errorf("%s: said %q, %v", name, say, err)
		}
	}
	s := newScram(sha256.New, "a,b=c", "pencil")
	if say, _, _ := s.next(nil); !strings.HasPrefix(string(say), "n,,n=a=2Cb=3Dc,r=") {
		t.Errorf("said %q", say)
	}
	s.nonce = strings.TrimPrefix(s.first[strings.Index(s.first, "r="):], "r=")
	if _, _, err := s.next([]byte("r=" + s.nonce + "x," + salt + ",i=4096")); err != nil {
		t.Fatal(err)
	}
	// Somebody who does not know the password cannot sign.
	for _, signature := range []string{"v=AAAA", "v=", "e=other-error", "", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="} {
		if _, done, err := (&scram{step: 2, signature: s.signature}).next([]byte(signature)); err == nil || done {
			t.Errorf("%q is taken", signature)
		}
	}
}

func TestBearerAcknowledgesARefusal(t *testing.T) {
	talk := bearer("abc")
	if say, _, _ := talk(nil); string(say) != "n,,\x01auth=Bearer abc\x01\x01" {
		t.Errorf("%q", say)
	}
	if say, done, _ := talk([]byte(`{"status":"invalid_token"}`)); string(say) != "\x01" || done {
		t.Errorf("%q, done %v", say, done)
	}
	talk = bearer("abc")
	_, _, _ = talk(nil)
	if say, done, _ := talk(nil); !done || say != nil {
		t.Errorf("%q, done %v", say, done)
	}
}
