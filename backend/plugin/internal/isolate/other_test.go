//go:build !(linux && (amd64 || arm64))

package isolate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
)

// TestUnsupported is of platforms without such processes; .ci/run runs it on one of 32 bits.
func TestUnsupported(t *testing.T) {
	if isolate.Supported {
		t.Fatal("the platform is said to have such processes")
	}
	p, err := isolate.Start(isolate.Config{})
	if p != nil || !errors.Is(err, isolate.ErrUnsupported) {
		t.Fatalf("Start: %v, %v", p, err)
	}
	what := "enqueue"
	_, called := p.Call(1, &what, 1, [6]uintptr{}, time.Second)
	_, life := p.Life(time.Second)
	_, block := p.Region().Alloc(64, 64)
	for name, err := range map[string]error{"Call": called, "Life": life, "Alloc": block, "Read": p.Read(1, 8, make([]byte, 8), time.Second),
		"ReadStruct":  p.ReadStruct(1, 8, make([]byte, 8), time.Second),
		"ReadStructs": p.ReadStructs(1, 8, 1, 8, make([]byte, 8), time.Second)} {
		if !errors.Is(err, isolate.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.End(1, nil)
	p.Close()
	if p.PID() != 0 || p.Stats() != (isolate.Stats{}) || isolate.Serve(nil) == 0 {
		t.Error("a process that is not there has a number, or a fate")
	}
}
