//go:build kafka

package kafkatest

import "github.com/pillion/pillion/internal/kafkatest/kafkaproc"

// Secured adds listeners with TLS and SASL, and ACLs.
func Secured(s kafkaproc.Secure) Option { return func(c *kafkaproc.Config) { c.Secure = &s } }

// Process is the cluster itself: its certificates (Files), users and ACLs.
func (c *RealCluster) Process() *kafkaproc.Kafka { return c.kafka }
