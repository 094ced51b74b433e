package backendtest

import "testing"

// tester is what the suite needs of a *testing.T. Specs of the suite itself note what it says of broken backends.
type tester interface {
	Helper()
	Cleanup(f func())
	Log(args ...any)
	Logf(format string, args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
	// sub runs f as a subtest.
	sub(name string, f func(t tester))
}

// running is a test of package testing.
type running struct{ *testing.T }

func (r running) sub(name string, f func(t tester)) {
	r.T.Helper()
	r.T.Run(name, func(t *testing.T) { f(running{t}) })
}
