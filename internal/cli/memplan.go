package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/memplan"
)

type memplanFlags struct {
	capacity int64
	timeout  time.Duration
	threads  int
	output   string
	svg      string
	title    string // of the picture
	json     bool
}

func (a *app) memplanCommand() *cobra.Command {
	f := &memplanFlags{}
	cmd := &cobra.Command{
		Use:   "memplan FILE.csv",
		Short: "Packs buffers with lifetimes into one arena",
		Long: "memplan reads buffers in MiniMalloc's format, CSV with the columns id, lower, upper and size in any order and optionally\n" +
			"alignment, gaps (\"10-20 30-40\") and offset, and chooses an offset for each. Lifetimes are half-open. Without --capacity\n" +
			"it makes the arena as low as it can, until that is proven optimal or time is out; where it is interrupted, the best plan\n" +
			"so far is the result.\n\n" +
			"Exit code: 0 with a plan, 3 where no plan can exist, 4 where time ran out without one, 1 on a fault of the input.",
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error { return a.memplan(cmd.Context(), args[0], f) },
	}
	cmd.Flags().Int64Var(&f.capacity, "capacity", 0, "bytes to fit in; 0 minimises the height")
	cmd.Flags().DurationVar(&f.timeout, "timeout", time.Minute, "most time of the search")
	cmd.Flags().IntVar(&f.threads, "threads", 0, "threads that search; 0 means all cores")
	cmd.Flags().StringVar(&f.output, "output", "", "write the buffers with their offsets to `FILE.csv`")
	cmd.Flags().StringVar(&f.svg, "svg", "", "draw the arena over time to `FILE.svg`")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// memplanReport is what memplan prints, and its JSON. Height is 0 without a plan.
type memplanReport struct {
	Status     string  `json:"status"` // solved, infeasible or timeout
	Height     int64   `json:"height"`
	LowerBound int64   `json:"lower_bound"`
	Ratio      float64 `json:"ratio"`
	Optimal    bool    `json:"optimal"`
	Method     string  `json:"method"`
	Seconds    float64 `json:"seconds"`
	Buffers    int     `json:"buffers"`
	Nodes      int64   `json:"nodes"` // of the search
}

func (a *app) memplan(ctx context.Context, path string, f *memplanFlags) error {
	if f.timeout <= 0 {
		return fmt.Errorf("--timeout %v: must be positive", f.timeout)
	}
	if err := apart("--output", f.output, path); err != nil {
		return err
	}
	if err := apart("--svg", f.svg, path); err != nil {
		return err
	}
	f.title = filepath.Base(path)
	bufs, err := readBuffers(path)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	start := time.Now()
	plan, err := memplan.Pack(limited, bufs, &memplan.Options{Capacity: f.capacity, Threads: f.threads})
	r := &memplanReport{Status: "solved", LowerBound: plan.LowerBound, Method: plan.Method, Seconds: time.Since(start).Seconds(), Buffers: len(bufs), Nodes: plan.Nodes}
	code := ExitOK
	switch {
	case ctx.Err() != nil && err != nil:
		return ctx.Err()
	case errors.Is(err, memplan.ErrInfeasible):
		r.Status, code = "infeasible", ExitInfeasible
	case errors.Is(err, memplan.ErrNoPlan):
		r.Status, code = "timeout", ExitNoPlan
	case err != nil:
		return err
	default:
		r.Height, r.Optimal = plan.Height, plan.Optimal
		r.Ratio = 1
		if plan.LowerBound > 0 {
			r.Ratio = float64(plan.Height) / float64(plan.LowerBound)
		}
		if err := memplan.Verify(bufs, plan.Offsets, f.capacity); err != nil {
			return err
		}
		if err := f.write(bufs, &plan); err != nil {
			return err
		}
	}
	if f.json {
		if err := writeJSON(a.stdout, r); err != nil {
			return err
		}
	} else {
		a.printMemplan(r)
	}
	if code != ExitOK {
		return &exitError{code: code}
	}
	return nil
}

func readBuffers(path string) ([]memplan.Buffer, error) {
	f, _, err := offheap.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	bufs, err := memplan.ReadCSV(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return bufs, nil
}

// write writes the files that the flags name.
func (f *memplanFlags) write(bufs []memplan.Buffer, plan *memplan.Plan) error {
	if f.output != "" {
		if err := replaceFile(f.output, func(w io.Writer) error { return memplan.WriteCSV(w, bufs, plan.Offsets) }); err != nil {
			return err
		}
	}
	if f.svg == "" {
		return nil
	}
	return replaceFile(f.svg, func(w io.Writer) error {
		return memplan.WriteSVG(w, bufs, *plan, &memplan.SVGOptions{Title: f.title, Capacity: f.capacity})
	})
}

func (a *app) printMemplan(r *memplanReport) {
	t := newTable(a.stdout)
	row(t, "status", r.Status)
	row(t, "buffers", r.Buffers)
	if r.Status == "solved" {
		height := fmt.Sprint(r.Height)
		if r.Optimal {
			height += " (optimal)"
		}
		row(t, "height", height)
	}
	row(t, "lower bound", r.LowerBound)
	if r.Status == "solved" {
		row(t, "ratio", fmt.Sprintf("%.6f", r.Ratio))
		row(t, "method", r.Method)
	}
	row(t, "nodes searched", r.Nodes)
	row(t, "time", fmt.Sprintf("%.3f s", r.Seconds))
	t.Flush()
}
