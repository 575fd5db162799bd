package produce

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pillion/pillion/internal/kafkatest"
)

// A broker that has just started still loads its coordinators: one attempt that it turns away is no
// news, a second one is, once.
func TestWhatIsCuredAtOnceIsNotLogged(t *testing.T) {
	for _, c := range []struct{ fails, warnings int }{{0, 0}, {1, 0}, {2, 1}, {4, 1}} {
		t.Run(fmt.Sprint(c.fails), func(t *testing.T) {
			fake := kafkatest.Fake(t)
			kafkatest.CreateTopic(t, fake.Addrs(), "table", 1, nil)
			left := c.fails
			fake.ControlKey(int16(kmsg.InitProducerID), func(req kmsg.Request) (kmsg.Response, error, bool) {
				fake.KeepControl()
				if left--; left < 0 {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
				resp.ErrorCode = 14 // COORDINATOR_LOAD_IN_PROGRESS
				return resp, nil, true
			})
			var out bytes.Buffer
			p := running(t, Config{Logger: hclog.New(&hclog.LoggerOptions{Output: &out})}, newClient(t, fake.Addrs()))
			if _, err := p.Write(limited(t), []Write{changelog("table", 0, writes(kv("k", "v")))}); err != nil {
				t.Fatal(err)
			}
			// A write that follows has seen the log of the one before.
			if _, err := p.Write(limited(t), []Write{changelog("table", 0, writes(kv("k", "w")))}); err != nil {
				t.Fatal(err)
			}
			warned, cured := strings.Count(out.String(), "a write did not succeed"), strings.Count(out.String(), "writes succeed again")
			if warned != c.warnings || cured != c.warnings {
				t.Errorf("%d warnings, %d of their ends, want %d:\n%s", warned, cured, c.warnings, out.String())
			}
		})
	}
}
