package score

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
)

func TestMain(m *testing.M) { ptest.MainWithDefault(m, "prism") }

const digits = "../../quickstart/digits.onnx"

// poison is a value on which runs fail.
const poison = 1e30

// failing is a Runner that fails now and then, and always on poison.
type failing struct {
	carve.Runner
	calls *atomic.Int64
	dies  *atomic.Bool // once, with an error that is no record's
}

func (f failing) Run(ctx context.Context, inputs map[string]tensor.Value) (map[string]tensor.Value, error) {
	n := f.calls.Add(1)
	if n == 40 && f.dies.Swap(false) {
		return nil, errors.New("the machine has gone away")
	}
	if n%7 == 0 {
		return nil, fmt.Errorf("%w: now and then", carve.ErrRun)
	}
	for _, v := range tensor.Of[float32](inputs["image"].(*tensor.Tensor)) {
		if v == poison {
			return nil, fmt.Errorf("%w: poison", carve.ErrRun)
		}
	}
	return f.Runner.Run(ctx, inputs)
}

// TestFiles scores 10,000 records of a file, where runs fail now and then, some records always do, some lines are no records, and the
// first try of the pipeline is ended by a fault of the machine. Each record has exactly one answer, and the right one.
func TestFiles(t *testing.T) {
	const records = 10000
	var calls atomic.Int64
	var dies atomic.Bool
	dies.Store(true)
	wrapped = func(r carve.Runner) carve.Runner { return failing{r, &calls, &dies} }
	t.Cleanup(func() { wrapped = func(r carve.Runner) carve.Runner { return r } })
	dir := t.TempDir()
	in, out, failed := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.csv"), filepath.Join(dir, "failed.csv")
	want := write(t, in, records)
	o := Options{Model: digits, Output: "probabilities", Retries: 2}

	run := func() (beam.PipelineResult, error) {
		p, s := beam.NewPipelineWithRoot()
		Files(s, o, in, out, failed)
		return ptest.RunWithMetrics(p)
	}
	if _, err := run(); err == nil {
		t.Fatal("the first try ended well")
	}
	result, err := run()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]float32{}
	for _, fields := range read(t, out) {
		var v []float32
		for _, f := range fields[1:] {
			x, err := strconv.ParseFloat(f, 32)
			if err != nil {
				t.Fatal(err)
			}
			v = append(v, float32(x))
		}
		if _, twice := got[fields[0]]; twice {
			t.Errorf("record %s has two answers", fields[0])
		}
		got[fields[0]] = v
	}
	faults := map[string]bool{}
	for _, fields := range read(t, failed) {
		if _, twice := got[fields[0]]; twice || faults[fields[0]] {
			t.Errorf("record %s has two answers", fields[0])
		}
		faults[fields[0]] = true
	}
	for id, w := range want {
		switch g := got[id]; {
		case w == nil && !faults[id]:
			t.Errorf("record %s, a fault, is none", id)
		case len(g) != len(w):
			t.Errorf("record %s: %v in place of %v", id, g, w)
		default:
			for i := range w {
				if math.Abs(float64(g[i]-w[i])) > 1e-5 {
					t.Fatalf("record %s: %v in place of %v", id, g, w)
				}
			}
		}
	}
	if len(got)+len(faults) != len(want) {
		t.Errorf("%d answers and %d faults for %d records", len(got), len(faults), len(want))
	}
	counters := map[string]int64{}
	for _, c := range result.Metrics().Query(func(r beam.MetricResult) bool { return r.Namespace() == "carve" }).Counters() {
		counters[c.Name()] += c.Result()
	}
	if counters["scored"] != int64(len(got)) || counters["retried"] == 0 || counters["failed"] == 0 {
		t.Errorf("counters: %v, %d answers", counters, len(got))
	}
}

// write writes records to a file, and returns the answers of the model by itself, nil for a fault.
func write(t *testing.T, path string, n int) map[string][]float32 {
	t.Helper()
	m, err := load(t.Context(), Options{Model: digits, Output: "probabilities", Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	plain := m.runner.(failing).Runner
	r := rand.New(rand.NewPCG(5, 6))
	want := map[string][]float32{}
	var b strings.Builder
	for i := range n {
		id, x := fmt.Sprintf("r%d", i), make([]float32, 64)
		b.WriteString(id)
		for k := range x {
			x[k] = float32(r.IntN(17)) / 16
			if i%1500 == 7 && k == 3 {
				x[k] = poison
			}
			if i%2000 == 9 && k == 60 {
				break
			}
			fmt.Fprintf(&b, ",%g", x[k])
		}
		if i%4000 == 13 {
			b.WriteString("\n") // the line after is blank
		}
		if i%3000 == 11 {
			b.WriteString(",many")
		}
		b.WriteByte('\n')
		if want[id] = nil; i%1500 == 7 || i%2000 == 9 || i%3000 == 11 {
			continue
		}
		out, err := plain.Run(t.Context(), map[string]tensor.Value{"image": tensor.From(x, 1, 1, 8, 8)})
		if err != nil {
			t.Fatal(err)
		}
		want[id] = tensor.Of[float32](out["probabilities"].(*tensor.Tensor))
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return want
}

func read(t *testing.T, path string) (list [][]string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		list = append(list, strings.Split(strings.TrimSpace(line), ","))
	}
	return list
}

// TestLoad tries models and outputs that there are not.
func TestLoad(t *testing.T) {
	for _, o := range []Options{{Model: "absent.onnx"}, {Model: digits, Output: "absent"}, {Model: "score.go"}} {
		o.Batch = 4
		if _, err := open(t.Context(), o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	a, err := open(t.Context(), Options{Model: digits, Batch: 4})
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := open(t.Context(), Options{Model: digits, Batch: 4}); a != b {
		t.Error("a process has two Programs of a model")
	}
}

// TestParse reads lines that are records, and those that are none.
func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		"a,1, 2.5 ,-3e2": `{a [1 2.5 -300]}`, "a,1\r": `{a [1]}`, "a\r": `{a []}`, ",1": `{ [1]}`, "a,NaN,Inf": `{a [NaN +Inf]}`, "": "", " \r": "",
		"a,x": `{a field 2, "x", is no number}`, "a,1,": `{a field 3, "", is no number}`, "a,1e999": `{a field 2, "1e999", is no number}`,
	} {
		var got string
		parse(t.Context(), line, func(r Record) { got += fmt.Sprint(r) }, func(f Failure) { got += fmt.Sprint(f) })
		if got != want {
			t.Errorf("%q is %s, not %s", line, got, want)
		}
	}
}

// TestCheck looks for files that there are, and that there are not.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for _, in := range []string{dir + "/absent.csv", dir + "/*.csv", "nowhere://x"} {
		if err := Check(t.Context(), in); err == nil {
			t.Errorf("%s: no error", in)
		}
	}
	if err := os.WriteFile(dir+"/a.csv", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{dir + "/a.csv", dir + "/*.csv"} {
		if err := Check(t.Context(), in); err != nil {
			t.Error(err)
		}
	}
}
