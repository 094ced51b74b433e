package backendtest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/carve-dev/carve/backend"
)

// Verdict runs sections of the suite on a backend, and returns what they say.
func Verdict(open func() backend.Backend, sections ...string) []string {
	v := &verdict{}
	s := &suite{open: open}
	for _, x := range s.sections() {
		if slices.Contains(sections, x.name) {
			v.sub(x.name, x.run)
		}
	}
	return v.said
}

// verdict is a test that notes its failures.
type verdict struct {
	mu       sync.Mutex
	said     []string
	cleanups []func()
}

func (*verdict) Helper()                        {}
func (*verdict) Log(...any)                     {}
func (*verdict) Logf(string, ...any)            {}
func (v *verdict) Cleanup(f func())             { v.cleanups = append(v.cleanups, f) }
func (v *verdict) Error(args ...any)            { v.Errorf("%s", fmt.Sprint(args...)) }
func (v *verdict) Fatal(args ...any)            { v.Fatalf("%s", fmt.Sprint(args...)) }
func (v *verdict) Skip(...any)                  { runtime.Goexit() }
func (v *verdict) Fatalf(f string, args ...any) { v.Errorf(f, args...); runtime.Goexit() }
func (v *verdict) Errorf(f string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said = append(v.said, fmt.Sprintf(f, args...))
}

func (v *verdict) sub(name string, f func(t tester)) {
	t := &verdict{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, c := range slices.Backward(t.cleanups) {
				c()
			}
		}()
		f(t)
	}()
	<-done
	for _, said := range t.said {
		v.said = append(v.said, name+": "+said)
	}
}
