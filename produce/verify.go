package produce

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafka"
	"github.com/pillion/pillion/protocol"
)

// verifying is the version of Fetch by which a broker shows that it is of Kafka 3.7 or newer. There is
// no feature or API that tells directly whether it verifies transactions.
const verifying = 16

// brokers is what VerifiesTransactions needs of *kafka.Client.
type brokers interface {
	Brokers(ctx context.Context) ([]kafka.Broker, error)
}

// VerifiesTransactions asks every broker of the cluster whether it refuses writes and positions that
// are not in a transaction. One that does not would let a producer that was fenced, or a request that
// comes late, into another transaction. The error is a *RejectedError for such a broker, otherwise what
// stands in the way of finding out.
func VerifiesTransactions(ctx context.Context, client brokers) error {
	all, err := client.Brokers(ctx)
	if err != nil {
		return fmt.Errorf("asking the brokers whether they verify transactions: %w", err)
	}
	for _, b := range all {
		if b.Versions[int16(kmsg.Fetch)][1] >= verifying {
			continue
		}
		return &RejectedError{
			Code: protocol.CodeKafkaRefused,
			Message: fmt.Sprintf("broker %d at %s does not verify transactions, TxnOffsetCommit included: that came with Kafka 3.7, and it speaks Fetch up to version %d only; "+
				"upgrade it, or set processing_guarantee: at_least_once", b.ID, b.Address, b.Versions[int16(kmsg.Fetch)][1]),
		}
	}
	return nil
}
