package main

import (
	"context"
	"flag"
	"strconv"
	"strings"
	"testing"

	"github.com/pillion/pillion/internal/kafkatest"
)

// Every mode reads every record: a benchmark that has fallen behind the code it measures fails here, and
// not on the day when somebody wants figures.
func TestEveryModeReadsEveryRecord(t *testing.T) {
	addrs := kafkatest.Fake(t).Addrs()
	for name, value := range map[string]string{"brokers": strings.Join(addrs, ","), "records": strconv.Itoa(3000), "partitions": "2"} {
		was := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(name, was) })
	}
	if err := fill(t.Context(), "filled", "lz4"); err != nil {
		t.Fatal(err)
	}
	for name, read := range readers {
		n, err := read(context.Background(), "filled")
		if err != nil || n != int64(*records) {
			t.Errorf("%s read %d records of %d: %v", name, n, *records, err)
		}
	}
}
