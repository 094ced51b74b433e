package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/pending"
)

type runFlags struct {
	modelFlags
	output  string
	check   bool
	profile string
}

func (a *app) runCommand() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run MODEL",
		Short: "Runs a model once and prints its outputs' shapes and statistics",
		Long: "run compiles and runs a model once, and prints type, shape and statistics of each output, of sequences those of the\n" +
			"first items, and of maps the first entries.\n\n" + defaultData + "\n\n" + overrideHelp + "\n\n" +
			"--output writes one file per output, DIR/NAME.npy; characters of the name outside of [A-Za-z0-9._-] become _, and a\n" +
			"name that is taken gets _2. What npy cannot hold, such as bfloat16, packed types, sequences and maps, is written as\n" +
			"NAME.pb, the protobuf message of its kind, which --input reads.\n\n" +
			"--check compares every group with the reference backend on the same operands, and fails where a value differs by\n" +
			"more than 1e-3 of itself plus 1e-4 of the deviation of its tensor; it names the first such node. Of a backend that\n" +
			"rounds operands of products, as its option precision asks, more is allowed: by tf32, f16 and weights in f16 2e-3 and\n" +
			"8e-3, by bf16 16e-3 and 63e-3, as by rows of 8 bits (accuracy_level 4). Nodes of a group that differs run one by one,\n" +
			"each on what the backend made of those in front of it, and are compared with the reference on these operands. Where\n" +
			"each is right, and together they make the group's results, rounding has decided, such as which of two equal scores\n" +
			"TopK, ArgMax or NonMaxSuppression takes: a warning names the node, and the group agrees.",
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args[0], f) },
	}
	f.add(cmd, shaping|overriding|feeding|compiling)
	cmd.Flags().StringVar(&f.output, "output", "", "folder for the outputs, `DIR`; it is made where it does not exist")
	cmd.Flags().BoolVar(&f.check, "check", false, "compare every group with the reference backend")
	cmd.Flags().StringVar(&f.profile, "profile", "", "write a Chrome trace to `FILE` and print the slowest nodes")
	return cmd
}

func (a *app) run(ctx context.Context, path string, f *runFlags) error {
	if err := apart("--profile", f.profile, f.reads(path)...); err != nil {
		return err
	}
	j, err := a.compile(ctx, path, &f.modelFlags)
	if err != nil {
		return err
	}
	defer j.close()
	j.binding.say(a)
	if err := complete(j.model.Graph(), j.binding, j.feeds); err != nil {
		return err
	}
	if err := outputsApart(f.output, j.program.Outputs(), f.reads(path)); err != nil {
		return err
	}
	end := j.running(a)
	defer end()
	var differs *carve.Difference
	if f.check {
		if differs, err = j.program.Check(ctx, j.feeds); err != nil {
			return err
		}
	}
	var out map[string]tensor.Value
	var profile *carve.Profile
	start := time.Now()
	if f.profile != "" {
		if _, err := j.program.Run(ctx, j.feeds); err != nil { // the first run warms up
			return err
		}
		start = time.Now()
		out, profile, err = j.program.RunProfiled(ctx, j.feeds)
	} else {
		out, err = j.program.Run(ctx, j.feeds)
	}
	if err != nil {
		return err
	}
	elapsed := time.Since(start)
	end()
	files, err := writeOutputs(f.output, j.program.Outputs(), out)
	if err != nil {
		return err
	}
	a.printOutputs(j.program.Outputs(), out, files)
	if f.check && differs == nil {
		fmt.Fprintln(a.stdout, "check: every group agrees with the reference backend")
	}
	if profile != nil {
		if err := replaceFile(f.profile, profile.WriteChromeTrace); err != nil {
			return err
		}
		a.printProfile(profile)
	}
	a.note("run took %v", elapsed.Round(time.Microsecond))
	if differs != nil {
		return fmt.Errorf("check: %v", differs)
	}
	return nil
}

// outputsApart refuses to write outputs to dir, unless it is "", where one of their files is a file that the command reads.
func outputsApart(dir string, ports []carve.Port, reads []string) error {
	if dir == "" {
		return nil
	}
	var names outputNames
	for _, p := range ports {
		name := filepath.Join(dir, names.next(p.Name))
		for _, suffix := range outputSuffixes(p.Type) {
			if err := apart("--output: output "+strconv.Quote(p.Name)+":", name+suffix, reads...); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeOutputs writes every output to dir, unless it is "", and returns the files' paths.
func writeOutputs(dir string, ports []carve.Port, out map[string]tensor.Value) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("--output: %w", err)
	}
	pending.Sweep(filepath.Join(dir, "any"))
	var names outputNames
	var files []string
	for _, p := range ports {
		file, err := writeOutput(dir, names.next(p.Name), out[p.Name])
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", p.Name, err)
		}
		files = append(files, file)
	}
	return files, nil
}

func (a *app) printOutputs(ports []carve.Port, out map[string]tensor.Value, files []string) {
	t := newTable(a.stdout)
	for i, p := range ports {
		typ, stats := describe(out[p.Name])
		file := ""
		if files != nil {
			file = files[i]
		}
		row(t, p.Name, typ, stats, file)
		itemRows(t, p.Name, out[p.Name], 0)
	}
	t.Flush()
}

// slowest is how many nodes a profile lists.
const slowest = 15

func (a *app) printProfile(p *carve.Profile) {
	fmt.Fprintf(a.stdout, "\ntotal %v, %s; the slowest:\n", p.Total.Round(time.Microsecond), counted(len(p.Spans), "step"))
	t := newTable(a.stdout)
	row(t, "time", "share", "GFLOP/s", "backend", "op", "node")
	for _, s := range p.Slowest(slowest) {
		speed := ""
		if s.FLOPs > 0 && s.Time > 0 {
			speed = fmt.Sprintf("%.1f", s.FLOPs/float64(s.Time.Nanoseconds()))
		}
		row(t, s.Time.Round(100*time.Nanosecond), share(float64(s.Time), float64(p.Total)), speed, s.Backend, s.Op, spanName(s))
	}
	t.Flush()
}

// share returns part of whole in percent.
func share(part, whole float64) string {
	if whole <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*part/whole)
}

// spanName names a step by the model's nodes.
func spanName(s carve.Span) string {
	switch len(s.Nodes) {
	case 0:
		return s.Name
	case 1:
		return s.Nodes[0]
	}
	return fmt.Sprintf("%s … (%d nodes)", s.Nodes[0], len(s.Nodes))
}
