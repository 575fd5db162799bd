package kafka

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

// conversation is one run of a SASL mechanism: what to say to what the broker has said. The first
// challenge is nil. After done the broker's last word has been heard and was right.
type conversation func(challenge []byte) (say []byte, done bool, err error)

// converse begins the mechanism's conversation with the secrets of now, as the principal.
func (a *authenticator) converse(ctx context.Context) (talk conversation, principal string, err error) {
	s := a.security
	if s.Mechanism == MechanismOAuthBearer {
		token, err := a.tokens.token(ctx)
		if err != nil {
			return nil, "", err
		}
		return bearer(token), "User:" + subjectOf(token), nil
	}
	password, err := a.password.get()
	if err != nil {
		return nil, "", err
	}
	switch s.Mechanism {
	case MechanismPlain:
		talk = plain(s.Username, password)
	case MechanismScram256:
		talk = newScram(sha256.New, s.Username, password).next
	case MechanismScram512:
		talk = newScram(sha512.New, s.Username, password).next
	}
	return talk, "User:" + s.Username, nil
}

func plain(user, password string) conversation {
	said := false
	return func([]byte) ([]byte, bool, error) {
		if said {
			return nil, true, nil
		}
		said = true
		return []byte("\x00" + user + "\x00" + password), false, nil
	}
}

// bearer is RFC 7628. A broker that refuses says why in its challenge, wants one more byte, and then
// says that the authentication has failed.
func bearer(token string) conversation {
	said := false
	return func(challenge []byte) ([]byte, bool, error) {
		switch {
		case !said:
			said = true
			return []byte("n,,\x01auth=Bearer " + token + "\x01\x01"), false, nil
		case len(challenge) > 0:
			return []byte{1}, false, nil
		}
		return nil, true, nil
	}
}

// scram is RFC 5802 as Kafka has it: names and passwords are UTF-8 as they are, without SASLprep.
type scram struct {
	hashed         func() hash.Hash
	user, password string
	nonce          string

	step      int
	first     string // our first message without its header
	signature []byte // what the broker must show that it knows the password, too
}

func newScram(hashed func() hash.Hash, user, password string) *scram {
	return &scram{hashed: hashed, user: user, password: password, nonce: rand.Text()}
}

var scramName = strings.NewReplacer("=", "=3D", ",", "=2C")

func (s *scram) next(challenge []byte) ([]byte, bool, error) {
	s.step++
	switch s.step {
	case 1:
		s.first = "n=" + scramName.Replace(s.user) + ",r=" + s.nonce
		return []byte("n,," + s.first), false, nil
	case 2:
		final, err := s.prove(string(challenge))
		return final, false, err
	}
	shown, ok := strings.CutPrefix(string(challenge), "v=")
	signature, err := base64.StdEncoding.DecodeString(shown)
	if !ok || err != nil || !hmac.Equal(signature, s.signature) {
		return nil, false, errors.New("what answers does not know our password either: it is not the broker that it pretends to be")
	}
	return nil, true, nil
}

// scramIterations bound what a broker can make us compute.
const scramFewest, scramMost = 4096, 1 << 20

// prove answers the broker's first message: nonce, salt and iterations.
func (s *scram) prove(challenge string) ([]byte, error) {
	fields := map[byte]string{}
	for _, field := range strings.Split(challenge, ",") {
		if len(field) > 2 && field[1] == '=' {
			fields[field[0]] = field[2:]
		}
	}
	salt, saltErr := base64.StdEncoding.DecodeString(fields['s'])
	iterations, countErr := strconv.Atoi(fields['i'])
	if saltErr != nil || countErr != nil || len(salt) == 0 || !strings.HasPrefix(fields['r'], s.nonce) || len(fields['r']) == len(s.nonce) {
		return nil, errors.New("the broker's part of the SCRAM exchange makes no sense")
	}
	if iterations < scramFewest || iterations > scramMost {
		return nil, fmt.Errorf("the broker wants %d SCRAM iterations, taken are %d to %d", iterations, scramFewest, scramMost)
	}
	salted, err := pbkdf2.Key(s.hashed, s.password, salt, iterations, s.hashed().Size())
	if err != nil {
		return nil, err
	}
	final := "c=biws,r=" + fields['r'] // biws is "n,,": no channel binding
	whole := s.first + "," + challenge + "," + final
	key := s.mac(salted, "Client Key")
	stored := s.hashed()
	stored.Write(key)
	proof := s.mac(stored.Sum(nil), whole)
	for i := range proof {
		proof[i] ^= key[i]
	}
	s.signature = s.mac(s.mac(salted, "Server Key"), whole)
	return []byte(final + ",p=" + base64.StdEncoding.EncodeToString(proof)), nil
}

func (s *scram) mac(key []byte, text string) []byte {
	mac := hmac.New(s.hashed, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
