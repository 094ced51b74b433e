// Command arena prints what memory carve plans for the models of the zoo, beside ONNX Runtime's published plan: the total
// with a buffer of its own for everything, the lower bound, and the arena, in the model's own order of execution and in
// the order that carve chooses. Sizes are MiB of 2^20 bytes, at the dims of the models' reference inputs.
//
//	go run ./internal/bench/arena [-models resnet50,bert_base] [-threads 2] [-baseline FILE.md]
//
// The baseline is a Markdown table whose first column is the model and which has a column "plan MiB"; by default it is
// baseline.md beside the zoo. Without it that column is empty. Exit code 1 where an arena is above its lower bound.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/carve-dev/carve"
	_ "github.com/carve-dev/carve/backend/cpu"
	_ "github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/zootest"
	"github.com/carve-dev/carve/memplan"
)

// row is a model's plan, in bytes.
type row struct {
	model            string
	naive            int64
	before, after    carve.DeviceReport // of the host, in the model's order and in carve's
	peak             carve.PeakReport   // without workspace, in the model's order and in carve's
	buffers          int
	greedy           int64         // height of heuristics alone
	took             time.Duration // by them, the least of some runs
	groups, converts [2]int
	published        float64 // MiB; NaN where there is none
}

// apart is the model that means leave out: most of its memory depends on data.
const apart = "ssdlite320_mobilenet_v3_large"

func main() {
	models := flag.String("models", "", "names, comma-separated; all by default")
	threads := flag.Int("threads", 0, "workers of a run; some workspaces grow with them")
	path := flag.String("baseline", "", "Markdown file with a column \"plan MiB\"")
	flag.Parse()
	rows, err := measure(*models, *threads, *path)
	if err != nil {
		fmt.Fprintln(os.Stderr, "arena:", err)
		os.Exit(1)
	}
	if !table(rows) {
		os.Exit(1)
	}
}

func measure(models string, threads int, path string) ([]row, error) {
	names, err := zootest.Names()
	if err != nil {
		return nil, err
	}
	if models != "" {
		names = strings.Split(models, ",")
	}
	published, err := baseline(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, name := range names {
		r := row{model: name, published: math.NaN()}
		if v, ok := published[name]; ok {
			r.published = v
		}
		for i, keep := range []bool{true, false} {
			rep, bufs, err := plan(name, threads, keep)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if err := r.heuristics(bufs); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			d := rep.Devices[0]
			if keep {
				r.before = d
			} else {
				r.after, r.naive, r.peak = d, d.Naive, rep.Peak
			}
			r.groups[i], r.converts[i] = len(rep.Groups), len(rep.Conversions)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// heuristics packs with heuristics alone.
func (r *row) heuristics(bufs []memplan.Buffer) error {
	r.buffers, r.took = len(bufs), time.Hour
	for range 20 {
		start := time.Now()
		p, err := memplan.Greedy(bufs)
		if err != nil {
			return err
		}
		r.greedy, r.took = p.Height, min(r.took, time.Since(start))
	}
	return nil
}

// plan compiles a model of the zoo and returns the report at its reference dims, and what the host's arena holds.
func plan(name string, threads int, keep bool) (*carve.Report, []memplan.Buffer, error) {
	path, err := zootest.Materialize(name)
	if err != nil {
		return nil, nil, err
	}
	ref, err := zootest.ReadReference(name)
	if err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	m, err := carve.Open(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	defer m.Close()
	p, err := carve.Compile(ctx, m, &carve.Options{Threads: threads, KeepOrder: keep, Verify: true})
	if err != nil {
		return nil, nil, err
	}
	defer p.Close()
	shapes := map[string][]int{}
	for _, in := range ref.Inputs {
		shapes[in.Name] = in.Dims
	}
	r, err := p.Report(ctx, shapes)
	if err != nil {
		return nil, nil, err
	}
	plans, err := p.Plan(ctx, shapes)
	if err != nil || len(plans) == 0 {
		return r, nil, err
	}
	var bufs []memplan.Buffer
	for _, b := range plans[0].Buffers {
		size := (b.Bytes + tensor.Alignment - 1) &^ (tensor.Alignment - 1)
		bufs = append(bufs, memplan.Buffer{Size: size, Align: tensor.Alignment, Lower: b.First, Upper: b.End})
	}
	return r, bufs, nil
}

// baseline reads the column "plan MiB" of the first table that has one.
func baseline(path string) (map[string]float64, error) {
	if path == "" {
		var err error
		if path, err = zootest.Shared("reference/baseline.md"); errors.Is(err, zootest.ErrAbsent) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out, column := map[string]float64{}, -1
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case column < 0:
			for i, c := range cells {
				if c == "plan MiB" {
					column = i
				}
			}
		case len(cells) <= column:
			return out, nil
		default:
			var v float64
			if _, err := fmt.Sscan(cells[column], &v); err == nil {
				out[cells[0]] = v
			}
		}
	}
	return out, nil
}

// table prints the rows and reports whether every arena meets its lower bound.
func table(rows []row) bool {
	fmt.Println("| model | naive | peak without workspace, model's order | carve's order | lower bound | arena, model's order | carve's order | of bound | method | buffers | heuristics of bound | ms | ONNX Runtime | ratio |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|")
	tight, sum, n, worst := true, 0.0, 0, 0.0
	mib := func(b int64) float64 { return float64(b) / (1 << 20) }
	for _, r := range rows {
		ratio := mib(r.after.Arena) / r.published
		fmt.Printf("| %s | %.3f | %.3f | %.3f | %.3f | %.3f | %.3f | %.4f | %s | %d | %.4f | %.3f | %.3f | %.2f |\n", r.model, mib(r.naive), mib(r.peak.Before),
			mib(r.peak.After), mib(r.after.LowerBound),
			mib(r.before.Arena), mib(r.after.Arena), float64(r.after.Arena)/float64(max(r.after.LowerBound, 1)), r.after.Method,
			r.buffers, float64(r.greedy)/float64(max(r.after.LowerBound, 1)), float64(r.took.Microseconds())/1000, r.published, ratio)
		tight = tight && r.after.Arena == r.after.LowerBound && r.before.Arena == r.before.LowerBound
		if r.groups[0] != r.groups[1] || r.converts[0] != r.converts[1] {
			fmt.Fprintf(os.Stderr, "%s: the order changes groups from %d to %d, conversions from %d to %d\n", r.model, r.groups[0], r.groups[1],
				r.converts[0], r.converts[1])
		}
		if r.model != apart && !math.IsNaN(ratio) {
			sum += math.Log(ratio)
			n++
			worst = max(worst, ratio)
		}
	}
	if n > 0 {
		fmt.Printf("\nGeometric mean of carve's arena over ONNX Runtime's plan, %d models without %s: %.3f, largest %.3f\n", n, apart,
			math.Exp(sum/float64(n)), worst)
	}
	return tight
}
