package backendtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/cpu"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

func TestExamine(t *testing.T) {
	closed := errors.New("the lid is shut")
	for name, open := range map[string]func() (backend.Backend, error){
		"the lid is shut": func() (backend.Backend, error) { return nil, closed },
		"panic: ouch":     func() (backend.Backend, error) { panic("ouch") },
		"no backend":      func() (backend.Backend, error) { return nil, nil },
	} {
		told := 0
		list, err := backendtest.Examine(context.Background(), open, func(backendtest.Verdict) { told++ })
		if err != nil || told != len(list) || len(list) < 10 {
			t.Fatalf("%s: %d verdicts, of which %d were told, and the error %v", name, len(list), told, err)
		}
		for _, v := range list {
			if len(v.Failures) == 0 || !strings.Contains(v.Failures[0], name) || v.Cases < 1 {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := backendtest.Examine(ctx, func() (backend.Backend, error) { return cpu.Open(backend.Config{}) }, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestDistances(t *testing.T) {
	b := opened(t, cpu.Open)
	list, err := backendtest.Distances(context.Background(), b, 6)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]bool{}
	for _, d := range list {
		if len(d.Failures) > 0 || d.Ran > d.Cases || d.Worst > 1e-3 {
			t.Errorf("%+v", d)
		}
		ran[d.Op] = d.Ran > 0
	}
	if !ran["Conv"] || !ran["MatMul"] {
		t.Errorf("of %d operators neither Conv nor MatMul ran", len(list))
	}
	wrong := &broken{Backend: opened(t, cpu.Open), enqueue: func(ctx context.Context, _ *graph.Graph, in backend.Instance, a *backend.RunArgs) error {
		e, err := in.Enqueue(ctx, a)
		if err == nil {
			err = device.Wait(ctx, e)
		}
		for _, x := range a.Outputs {
			if x != nil && x.DType == tensor.Float32 && x.Len() > 0 {
				tensor.Of[float32](x)[0] += 100
			}
		}
		return err
	}}
	if list, err = backendtest.Distances(context.Background(), wrong, 1); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(d backendtest.Distance) bool { return d.Op == "Add" })
	if i < 0 || len(list[i].Failures) == 0 || list[i].Worst < 1 {
		t.Errorf("a backend that is wrong by 100: %+v", list)
	}
}
