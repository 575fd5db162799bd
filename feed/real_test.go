//go:build kafka

package feed

import (
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

func TestOnKafka(t *testing.T) {
	testKafka(t, kafkatest.Broker(t, kafkatest.Latest).Addrs())
}
