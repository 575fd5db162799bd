package kafka

import (
	"errors"
	"fmt"
	"testing"
)

func TestARightThatIsMissingIsNamedWhole(t *testing.T) {
	c, err := New(Config{Bootstrap: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, w := range []struct {
		code            int16
		name, operation string
		want            string
	}{
		{29, "orders", "Write", "Kafka refuses User:ANONYMOUS the operation Write on topic orders: grant Write to User:ANONYMOUS on topic orders with an ACL (TOPIC_AUTHORIZATION_FAILED, Kafka error 29)"},
		{30, "shop", "Read", "Kafka refuses User:ANONYMOUS the operation Read on group shop: grant Read to User:ANONYMOUS on group shop with an ACL (GROUP_AUTHORIZATION_FAILED, Kafka error 30)"},
		{31, "", "IdempotentWrite", "Kafka refuses User:ANONYMOUS the operation IdempotentWrite on cluster kafka-cluster: grant IdempotentWrite to User:ANONYMOUS on cluster kafka-cluster with an ACL (CLUSTER_AUTHORIZATION_FAILED, Kafka error 31)"},
		{53, "shop-1", "Write", "Kafka refuses User:ANONYMOUS the operation Write on transactional id shop-1: grant Write to User:ANONYMOUS on all transactional ids that begin with the group's name and a dash, by a prefixed ACL (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Kafka error 53)"},
	} {
		err := fmt.Errorf("joining: %w", c.Denied(w.code, w.name, w.operation))
		var denied *AccessError
		if !errors.As(err, &denied) || denied.Error() != w.want {
			t.Errorf("%v\nwant %s", denied, w.want)
		}
		if code, ok := CodeOf(err); !ok || code != w.code || Retriable(err) {
			t.Errorf("code %d %v, retriable %v; want %d, never retriable", code, ok, Retriable(err), w.code)
		}
	}
	if c.Denied(3, "orders", "Read") != nil {
		t.Error("an unknown topic is no lack of a right")
	}
}
