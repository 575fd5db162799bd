package drill

import "strings"

// securityFlags are how the sidecars come to the brokers: TLS and SCRAM. The password is in the environment,
// which no process list shows.
func (l *lab) securityFlags() []string {
	if l.options.Plain {
		return nil
	}
	return []string{
		"--security-protocol", "SASL_SSL", "--ssl-ca-file", l.cluster.kafka.Files.CA,
		"--sasl-mechanism", "SCRAM-SHA-512", "--sasl-username", user,
	}
}

func (l *lab) securityEnv() []string {
	if l.options.Plain {
		return nil
	}
	return []string{"PILLION_SASL_PASSWORD=" + password}
}

// bootstrap is where they begin.
func (l *lab) bootstrap() string {
	if l.options.Plain {
		return strings.Join(l.cluster.kafka.Addrs(), ",")
	}
	return l.cluster.bootstrap()
}
