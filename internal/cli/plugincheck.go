//go:build !nonative

package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest"
	"github.com/carve-dev/carve/backend/plugin"
)

type checkFlags struct {
	processors []string
	options    []string
	cases      uint
	json       bool
	apart      bool // out of process
	process    plugin.Process
}

func (a *app) pluginCheckCommand() *cobra.Command {
	f := &checkFlags{}
	cmd := &cobra.Command{
		Use:   "check LIBRARY",
		Short: "Runs the compliance suite on the processors of a plugin",
		Long: "check opens a plugin's library and has each of its processors keep the contract: operators and random graphs are\n" +
			"compared with the reference kernels, formats go there and back, memory, cancellation, concurrent runs and failures are\n" +
			"tried. What a processor turns down is no fault; what it takes it has to run, and right.\n\n" +
			"It then prints, for every operator that the processor takes, in how many random cases it ran nodes, and the largest\n" +
			"difference of an element, as a share of the largest element of its output. The exit code is 1 where something failed.\n\n" +
			"With --out-of-process the library works in a process of its own (Linux), which is started again where it crashes, hangs or\n" +
			"exits: each time is a failure, and the suite goes on.",
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error { return a.pluginCheck(cmd.Context(), args[0], f) },
	}
	cmd.Flags().StringArrayVar(&f.processors, "processor", nil, "check processor `NAME` alone (repeatable)")
	cmd.Flags().StringArrayVar(&f.options, "option", nil, "option that processors are opened with, `KEY=VALUE` (repeatable)")
	cmd.Flags().UintVar(&f.cases, "cases", 5, "random cases of each operator")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().BoolVar(&f.apart, "out-of-process", false, "run the library in a process of its own")
	cmd.Flags().DurationVar(&f.process.Timeout, "timeout", 0, "with --out-of-process, most `TIME` of a call, and of what it queues; 0 means 30s")
	cmd.Flags().DurationVar(&f.process.CompileTimeout, "compile-timeout", 0, "with --out-of-process, most `TIME` of a compilation; 0 means 10m")
	return cmd
}

// library opens the plugin where it is to run.
func (f *checkFlags) library(path string) (*plugin.Library, error) {
	switch {
	case f.process.Timeout < 0 || f.process.CompileTimeout < 0:
		return nil, errors.New("--timeout and --compile-timeout: must not be negative")
	case f.apart:
		return plugin.OpenOutOfProcess(path, &f.process)
	case f.process != plugin.Process{}:
		return nil, errors.New("--timeout and --compile-timeout are for --out-of-process, which is missing")
	}
	path, err := filepath.Abs(path) // a name without a folder would be looked up where the system has its libraries
	if err != nil {
		return nil, err
	}
	return plugin.Open(path)
}

// checkReport is what there is to say of a processor, and its JSON.
type checkReport struct {
	Processor string                 `json:"processor"`
	Version   string                 `json:"version"`
	Arch      string                 `json:"arch"`
	Sections  []backendtest.Verdict  `json:"sections"`
	Operators []backendtest.Distance `json:"operators"`
	Listed    int                    `json:"listed"`  // operators that the plugin lists
	Untried   []string               `json:"untried"` // those of which no random case was taken
	Failures  int                    `json:"failures"`
	Restarts  int                    `json:"restarts,omitempty"` // of the library's process
}

func (a *app) pluginCheck(ctx context.Context, path string, f *checkFlags) error {
	options := map[string]string{}
	for _, o := range f.options {
		key, value, ok := strings.Cut(o, "=")
		if !ok || key == "" {
			return fmt.Errorf("--option %s: expected KEY=VALUE", o)
		}
		options[key] = value
	}
	l, err := f.library(path)
	if err != nil {
		return err
	}
	var reports []checkReport
	for _, p := range l.Processors() {
		if len(f.processors) > 0 && !slices.Contains(f.processors, p.Name) {
			continue
		}
		open := func() (*plugin.Backend, error) { return l.Open(p.Name, options) }
		r, err := a.checkProcessor(ctx, p, open, f)
		if err != nil {
			return err
		}
		reports = append(reports, *r)
	}
	if len(reports) == 0 {
		return fmt.Errorf("%w: %s has no processor to check", backend.ErrUnknown, path)
	}
	failures := 0
	for _, r := range reports {
		failures += r.Failures
	}
	if f.json {
		err = writeJSON(a.stdout, reports)
	}
	if err == nil && failures > 0 {
		return &exitError{code: ExitError}
	}
	return err
}

// checkProcessor runs the suite on one processor, and prints as it goes unless JSON is wanted.
func (a *app) checkProcessor(ctx context.Context, p plugin.Processor, open func() (*plugin.Backend, error), f *checkFlags) (*checkReport, error) {
	r := &checkReport{Processor: p.Name, Version: p.Version, Arch: p.Arch}
	say := func(format string, args ...any) {
		if !f.json {
			fmt.Fprintln(a.stdout, oneLine(fmt.Sprintf(format, args...)))
		}
	}
	say("processor %s: %s, version %s", p.Name, p.Arch, p.Version)
	var b *plugin.Backend
	var err error
	if f.apart { // the process stays, and is counted, from here on
		if b, err = open(); err != nil {
			return r, err
		}
	}
	r.Sections, err = backendtest.Examine(ctx, func() (backend.Backend, error) { return open() }, func(v backendtest.Verdict) {
		what := "ok"
		if n := len(v.Failures); n > 0 {
			what = counted(n, "failure")
		}
		say("%-13s %s, %s", v.Section, counted(v.Cases, "case"), what)
		for _, s := range v.Failures {
			say("  FAIL %s", s)
		}
		for _, s := range v.Skipped {
			say("  left out: %s", s)
		}
		r.Failures += len(v.Failures)
	})
	if err == nil && b == nil {
		b, err = open()
	}
	if b == nil {
		return r, err
	}
	if err == nil {
		r.Operators, err = backendtest.Distances(ctx, b, uint64(f.cases))
	}
	if err == nil {
		a.process(r, b, f)
		a.coverage(r, b, f)
	}
	if cerr := b.Close(); err == nil {
		err = cerr
	}
	return r, err
}

// process tells how the library's process has fared: none may end.
func (a *app) process(r *checkReport, b *plugin.Backend, f *checkFlags) {
	state, apart := b.Process()
	if !apart {
		return
	}
	r.Restarts = state.Restarts
	r.Failures += state.Restarts
	if !f.json {
		fmt.Fprintf(a.stdout, "process: started again %s\n", counted(state.Restarts, "time"))
		if state.Last != "" {
			fmt.Fprintf(a.stdout, "  FAIL the last one %s\n", oneLine(state.Last))
		}
	}
}

// coverage prints how far the results of each operator are from the reference kernels', and what was not tried.
func (a *app) coverage(r *checkReport, b *plugin.Backend, f *checkFlags) {
	tried := map[string]bool{}
	for _, d := range r.Operators {
		tried[d.Op] = true
		r.Failures += len(d.Failures)
	}
	for _, op := range b.Operators() {
		r.Listed++
		if op.Domain != "" || !tried[op.Name] {
			r.Untried = append(r.Untried, op.String())
		}
	}
	if f.json {
		return
	}
	w := newTable(a.stdout)
	row(w, "operator", "cases", "on it", "largest difference")
	for _, d := range r.Operators {
		row(w, d.Op, d.Cases, d.Ran, fmt.Sprintf("%.1e", d.Worst))
	}
	_ = w.Flush()
	for _, d := range r.Operators {
		for _, s := range d.Failures {
			fmt.Fprintf(a.stdout, "FAIL %s\n", oneLine(s))
		}
	}
	fmt.Fprintf(a.stdout, "%s listed, %d tried by random cases\n", counted(r.Listed, "operator"), r.Listed-len(r.Untried))
	if len(r.Untried) > 0 {
		fmt.Fprintf(a.stdout, "not tried by themselves: %s\n", oneLine(strings.Join(r.Untried, ", ")))
	}
	fmt.Fprintf(a.stdout, "%s\n", counted(r.Failures, "failure"))
}
