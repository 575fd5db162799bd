package conformance

import "fmt"

// failure is what a worker did wrong.
type failure struct {
	want, came, hint string
}

func (f *failure) Error() string { return fmt.Sprintf("expected %s; came %s", f.want, f.came) }

func fail(want, came, hint string) error { return &failure{want, came, hint} }
