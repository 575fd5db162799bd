package produce

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/pillion/pillion/internal/kafkatest"
)

func TestBrokersThatVerifyNothingAreRefusedInWords(t *testing.T) {
	if err := VerifiesTransactions(limited(t), newClient(t, kafkatest.Fake(t).Addrs())); err != nil {
		t.Error(err)
	}
	if err := VerifiesTransactions(limited(t), newClient(t, kafkatest.Fake(t, kfake.MaxVersions(kversion.V3_7_0())).Addrs())); err != nil {
		t.Error(err)
	}
	old := kafkatest.Fake(t, kfake.MaxVersions(kversion.V3_6_0()))
	err := VerifiesTransactions(limited(t), newClient(t, old.Addrs()))
	var rejected *RejectedError
	if !errors.As(err, &rejected) {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"broker 0 at " + old.Addrs()[0], "TxnOffsetCommit", "3.7", "processing_guarantee: at_least_once"} {
		if !strings.Contains(rejected.Message, part) {
			t.Errorf("%q does not say %q", rejected.Message, part)
		}
	}
	// A broker that cannot be asked is not one that was refused.
	old.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := VerifiesTransactions(ctx, newClient(t, []string{"127.0.0.1:1"})); err == nil || errors.As(err, &rejected) {
		t.Errorf("got %v", err)
	}
}
