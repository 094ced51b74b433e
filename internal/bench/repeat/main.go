// Command repeat measures what it saves to compile equal groups once, such as the layers of a transformer: for models of the zoo it prints
// how many groups a backend has, how many it compiles, how long compiling takes, and the memory of packed weights, as a Markdown table.
//
//	go run ./internal/bench/repeat [-models bert_base,vit_b_16] [-threads 1] [-rounds 3] [-takes 20ms]
//
// The backends are cpu and mkl, which compile each group, since that takes them less than to find equal ones, and an accelerator whose
// compiler takes as long as -takes for a group, once with backend.Repeating (a plugin's CARVE_PROCESSOR_REPEATS) and once without. It leaves
// LayerNormalization to cpu, so that the groups of a layer are its own. Times are the least of the rounds, in which the sides take turns.
// The zoo and the weights are found as the tests find them (see internal/zootest).
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/mkl"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
)

// accelerator has a compiler that takes its time.
type accelerator struct {
	*fake.Backend
	takes    time.Duration
	repeats  bool
	compiled atomic.Int32
}

// Repeats implements backend.Repeating.
func (a *accelerator) Repeats(*graph.Graph) bool { return a.repeats }

// Compile implements backend.Backend.
func (a *accelerator) Compile(ctx context.Context, g *graph.Graph, o backend.CompileOptions) (backend.Executable, error) {
	a.compiled.Add(1)
	time.Sleep(a.takes)
	return a.Backend.Compile(ctx, g, o)
}

// side is one way to compile a model.
type side struct {
	name     string
	backends []string
	repeats  bool
}

var sides = []side{
	{"cpu", []string{"cpu"}, false}, {"mkl,cpu", []string{"mkl", "cpu"}, false},
	{"accelerator, each group", []string{"accelerator", "cpu"}, false}, {"accelerator, equal groups once", []string{"accelerator", "cpu"}, true},
}

// outcome is what a compilation comes to.
type outcome struct {
	groups, compiled int
	took             time.Duration
	packed           int64
}

func main() {
	models := flag.String("models", "bert_base,vit_b_16", "names, comma-separated")
	threads := flag.Int("threads", 1, "threads")
	rounds := flag.Int("rounds", 3, "rounds")
	takes := flag.Duration("takes", 20*time.Millisecond, "how long the accelerator takes to compile a group")
	flag.Parse()
	fmt.Println("| model | backends | groups of the first | compiled | compile ms | packed weights MiB |")
	fmt.Println("|---|---|--:|--:|--:|--:|")
	for _, name := range strings.Split(*models, ",") {
		best := make([]outcome, len(sides))
		for range *rounds {
			for i := range sides {
				x, err := compile(name, &sides[i], *threads, *takes)
				if err != nil {
					fmt.Fprintf(os.Stderr, "repeat: %s on %s: %v\n", name, sides[i].name, err)
					os.Exit(1)
				}
				if best[i].took == 0 || x.took < best[i].took {
					best[i] = x
				}
			}
		}
		for i, x := range best {
			fmt.Printf("| %s | %s | %d | %d | %.1f | %.1f |\n", name, sides[i].name, x.groups, x.compiled, float64(x.took)/1e6, float64(x.packed)/math.Pow(2, 20))
		}
	}
}

// compile opens and compiles a model of the zoo at the shapes of its reference.
func compile(name string, s *side, threads int, takes time.Duration) (x outcome, err error) {
	ctx := context.Background()
	path, err := zootest.Materialize(name)
	if err != nil {
		return x, err
	}
	ref, err := zootest.ReadReference(name)
	if err != nil {
		return x, err
	}
	feeds, err := ref.Feeds()
	if err != nil {
		return x, err
	}
	o := &carve.Options{Threads: threads, Placement: carve.Priority, MaxSessions: 1, Shapes: map[string][]int{}, Open: map[string]backend.Backend{}}
	for input, v := range feeds {
		if t, ok := v.(*tensor.Tensor); ok {
			o.Shapes[input] = t.Shape
		}
	}
	for _, b := range s.backends {
		o.Backends = append(o.Backends, backend.Config{Name: b})
	}
	a := &accelerator{takes: takes, repeats: s.repeats, Backend: fake.New(fake.Options{Name: "accelerator",
		Accept: func(n *graph.Node) bool { return !n.Is("LayerNormalization") }})}
	if s.backends[0] == "accelerator" {
		o.Open["accelerator"] = a
	}
	m, err := carve.Open(ctx, path)
	if err != nil {
		return x, err
	}
	defer m.Close()
	start := time.Now()
	p, err := carve.Compile(ctx, m, o)
	if err != nil {
		return x, err
	}
	defer p.Close()
	x.took, x.packed = time.Since(start), p.Memory().PackedWeights
	r, err := p.Report(ctx, nil)
	if err != nil {
		return x, err
	}
	for _, g := range r.Groups {
		if g.Backend == s.backends[0] {
			x.groups++
		}
	}
	if x.compiled = x.groups; s.backends[0] == "accelerator" {
		x.compiled = int(a.compiled.Load())
	}
	return x, nil
}
