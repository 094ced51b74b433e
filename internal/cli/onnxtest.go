package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/partition"
)

type onnxtestFlags struct {
	modelFlags
	jobs    int
	json    string
	timeout time.Duration
}

func (a *app) onnxtestCommand() *cobra.Command {
	f := &onnxtestFlags{}
	cmd := &cobra.Command{
		Use:   "onnxtest DIR…",
		Short: "Runs ONNX backend test cases",
		Long: "onnxtest runs every ONNX backend test case below the folders: a folder with model.onnx and test_data_set_*, or a file\n" +
			"NAME.onnx beside NAME_output_0.pb, which stores no inputs and is fed with the numbers 0 to n-1 divided by n.\n\n" +
			"A case passes where shapes and element types are equal, floats within rtol 1e-3 and atol 1e-7 (unless a data.json in the\n" +
			"case says otherwise), NaN where NaN is expected, and everything else equal. Skipped are cases that draw random numbers, for\n" +
			"which ONNX names no generator, where types and shapes are right and numbers are others. They and failures are printed as they\n" +
			"come; the exit code is 1 where there is a failure.",
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error { return a.onnxtest(cmd.Context(), args, f) },
	}
	f.add(cmd, compiling)
	cmd.Flags().IntVar(&f.jobs, "jobs", runtime.GOMAXPROCS(0), "cases at a time")
	cmd.Flags().StringVar(&f.json, "json", "", "write the results as JSON to `FILE`; - is stdout, which then holds nothing else")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Minute, "most time of one case")
	return cmd
}

// caseResult is what became of a case.
type caseResult struct {
	Name   string         `json:"name"`
	Status string         `json:"status"` // passed, failed or skipped
	Reason string         `json:"reason"` // "unsupported" where no backend runs an operator
	Nodes  map[string]int `json:"nodes"`  // nodes of the model by the backend that has them
	detail string         // what more there is to say of the reason
}

// testReport is the JSON of onnxtest.
type testReport struct {
	Passed  int          `json:"passed"`
	Failed  int          `json:"failed"`
	Skipped int          `json:"skipped"`
	Cases   []caseResult `json:"cases"`
}

const (
	passed  = "passed"
	failed  = "failed"
	skipped = "skipped"
)

func (a *app) onnxtest(ctx context.Context, dirs []string, f *onnxtestFlags) error {
	if f.jobs < 1 {
		return fmt.Errorf("--jobs %d: must be at least 1", f.jobs)
	}
	if f.timeout <= 0 {
		return fmt.Errorf("--timeout %v: must be positive", f.timeout)
	}
	var o carve.Options
	if err := f.apply(&o); err != nil {
		return err
	}
	if o.Threads == 0 {
		o.Threads = max(1, runtime.GOMAXPROCS(0)/f.jobs)
	}
	cases, err := findCases(dirs)
	if err != nil {
		return err
	}
	text := a.stdout
	if f.json == "-" {
		text = a.stderr
	}
	r, err := a.runCases(ctx, cases, &o, f, text)
	if err != nil {
		return err
	}
	switch f.json {
	case "":
	case "-":
		err = writeJSON(a.stdout, r)
	default:
		err = replaceFile(f.json, func(w io.Writer) error { return writeJSON(w, r) })
	}
	if err != nil {
		return err
	}
	printNodes(text, r)
	fmt.Fprintf(text, "%d passed, %d failed, %d skipped\n", r.Passed, r.Failed, r.Skipped)
	if r.Failed > 0 {
		return &exitError{code: ExitError}
	}
	return nil
}

// printNodes tells how many nodes each backend ran.
func printNodes(w io.Writer, r *testReport) {
	sum := map[string]int{}
	for _, c := range r.Cases {
		for b, n := range c.Nodes {
			sum[b] += n
		}
	}
	if len(sum) == 0 {
		return
	}
	var list []string
	for _, b := range slices.Sorted(maps.Keys(sum)) {
		list = append(list, fmt.Sprintf("%s %d", b, sum[b]))
	}
	fmt.Fprintf(w, "nodes: %s\n", strings.Join(list, ", "))
}

// runCases runs cases several at a time, and prints failures in the order of the cases as soon as all before are done.
func (a *app) runCases(ctx context.Context, cases []testCase, o *carve.Options, f *onnxtestFlags, text io.Writer) (*testReport, error) {
	r := &testReport{Cases: make([]caseResult, len(cases))}
	done := make([]bool, len(cases))
	p := a.progress("cases", len(cases))
	defer p.end()
	var mu sync.Mutex
	printed := 0
	finish := func(i int, c caseResult) {
		mu.Lock()
		defer mu.Unlock()
		r.Cases[i], done[i] = c, true
		p.step()
		for ; printed < len(cases) && done[printed]; printed++ {
			c := &r.Cases[printed]
			if word := map[string]string{failed: "FAIL", skipped: "SKIP"}[c.Status]; word != "" && ctx.Err() == nil {
				p.clear()
				fmt.Fprintf(text, "%s %s\n", word, oneLine(c.Name+": "+strings.TrimSuffix(c.Reason+": "+c.detail, ": ")))
			}
		}
	}
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(f.jobs, len(cases)) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				finish(i, isolated(ctx, &cases[i], o, f.timeout))
			}
		}()
	}
feed:
	for i := range cases {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, c := range r.Cases {
		switch c.Status {
		case passed:
			r.Passed++
		case failed:
			r.Failed++
		case skipped:
			r.Skipped++
		}
	}
	return r, nil
}

// grace is how long a case may take to notice that its time is over.
const grace = 5 * time.Second

// isolated runs one case so that neither a panic nor a hang of it is one of the tool: a case that does not end in time
// is left behind.
func isolated(ctx context.Context, c *testCase, o *carve.Options, timeout time.Duration) caseResult {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ch := make(chan caseResult, 1)
	go func() {
		out := caseResult{Name: c.name, Status: passed, Nodes: map[string]int{}}
		defer func() {
			if r := recover(); r != nil {
				out.Status, out.Reason = failed, fmt.Sprintf("panic: %v", r)
			}
			ch <- out
		}()
		err := c.run(ctx, o, out.Nodes)
		var skip skipError
		switch {
		case err == nil:
		case errors.As(err, &skip):
			out.Status, out.Reason = skipped, string(skip)
		case errors.Is(err, context.DeadlineExceeded):
			out.Status, out.Reason = failed, "timeout"
		case errors.Is(err, partition.ErrUnplaced):
			out.Status, out.Reason, out.detail = failed, "unsupported", err.Error()
		default:
			out.Status, out.Reason = failed, oneLine(err.Error())
		}
	}()
	late := time.NewTimer(timeout + grace)
	defer late.Stop()
	select {
	case out := <-ch:
		return out
	case <-late.C:
		return caseResult{Name: c.name, Status: failed, Reason: "timeout", Nodes: map[string]int{}}
	}
}

// skipError is why a case is skipped.
type skipError string

func (e skipError) Error() string { return "skipped: " + string(e) }

// random are the operators that draw numbers: ONNX names no generator, so that results are others on each implementation, seeded or not.
var random = map[string]bool{"Bernoulli": true, "Multinomial": true, "RandomNormal": true, "RandomNormalLike": true, "RandomUniform": true, "RandomUniformLike": true}

// draws returns the name of an operator of the model that draws random numbers, "" where there is none. Dropout without a seed does so in
// training.
func draws(g *graph.Graph) (name string) {
	eachNode(g, func(n *graph.Node) {
		if n.Op.Domain == "" && (random[n.Op.Name] || n.Op.Name == "Dropout" && n.Input(2) != nil && n.Attrs.Lookup("seed") == nil) {
			name = n.Op.Name
		}
	})
	return name
}

// sameKind reports whether two tensors have one type and shape.
func sameKind(got, want tensor.Value) bool {
	g, ok := got.(*tensor.Tensor)
	w, too := want.(*tensor.Tensor)
	return ok && too && g.DType == w.DType && slices.Equal(g.Shape, w.Shape)
}

// run runs all data sets of the case and counts nodes by backend.
func (c *testCase) run(ctx context.Context, o *carve.Options, nodes map[string]int) error {
	if c.err != nil {
		return c.err
	}
	m, err := carve.Open(ctx, c.model)
	if err != nil {
		return err
	}
	defer m.Close()
	tol, err := c.tolerance()
	if err != nil {
		return err
	}
	for i, set := range c.sets {
		if err := c.runSet(ctx, m, o, set, tol, nodes, i == 0); err != nil {
			if len(c.sets) > 1 {
				return fmt.Errorf("data set %d: %w", i, err)
			}
			return err
		}
	}
	return nil
}

func (c *testCase) runSet(ctx context.Context, m *carve.Model, base *carve.Options, set dataSet, tol tolerance, nodes map[string]int, first bool) error {
	g := m.Graph()
	feeds, err := set.feeds(g)
	if err != nil {
		return err
	}
	b, err := bind(g, &modelFlags{}, feeds)
	if err != nil {
		return err
	}
	o := *base
	b.apply(g, &o)
	p, err := carve.Compile(ctx, m, &o)
	if err != nil {
		return err
	}
	defer p.Close()
	if first {
		countNodes(ctx, p, nodes)
	}
	got, err := p.Run(ctx, feeds)
	if err != nil {
		return err
	}
	for i, file := range set.outputs {
		if file == "" {
			continue
		}
		if i >= len(p.Outputs()) {
			return fmt.Errorf("the model has %s, the case %d", counted(len(p.Outputs()), "output"), len(set.outputs))
		}
		port := p.Outputs()[i]
		want, err := readValue(file, port.Type)
		if err != nil {
			return err
		}
		if err := tol.compare(got[port.Name], want); err != nil {
			if op := draws(g); op != "" && sameKind(got[port.Name], want) {
				return skipError(op + " draws random numbers")
			}
			return fmt.Errorf("output %q: %w", port.Name, err)
		}
	}
	return nil
}

// countNodes adds the nodes of every group. A plan that cannot be described is no fault of the case.
func countNodes(ctx context.Context, p *carve.Program, nodes map[string]int) {
	r, err := p.Report(ctx, nil)
	if err != nil {
		return
	}
	for _, g := range r.Groups {
		nodes[g.Backend] += len(g.Nodes)
	}
}
