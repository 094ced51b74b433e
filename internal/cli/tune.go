package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
)

// tuneFlags are those of tune.
type tuneFlags struct {
	modelFlags
	json bool
}

func (a *app) tuneCommand() *cobra.Command {
	f := &tuneFlags{modelFlags: modelFlags{measuring: true}}
	cmd := &cobra.Command{
		Use:   "tune MODEL",
		Short: "Measures on this machine which backends run a model fastest",
		Long: "tune measures operators of a model with every backend and format that could win, conversions, and then whole programs by\n" +
			"turns, and keeps what it finds in --cache. --placement measured of other commands chooses by it, with the same backends,\n" +
			"threads, shapes and options. What was measured before, for any model, is not measured again. It takes at most the time\n" +
			"of --budget, a minute by default, and may be interrupted: what has been measured is kept.\n\n" +
			"With --open batch=1,8,32 the dim stays open, as with --open batch of other commands, and all of its values are measured, each\n" +
			"with each of other dims'. One choice is made for all: each measurement is taken to hold for the values that are nearer to its own,\n" +
			"in ratio, than to others, and a run at each counts as much as at any other.\n\n" +
			"The fastest may be \"priority\", the order of the list; \"modelled\" or \"measured\", by cost with modelled or measured times;\n" +
			"\"alone NAME\", one backend with those that run what it does not; \"first NAME\", priority with that one at the front.\n\n" +
			defaultData + "\n\n" + overrideHelp,
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error { return a.tune(cmd.Context(), args[0], f) },
	}
	f.add(cmd, shaping|overriding|feeding|compiling)
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.Flags().Lookup("budget").Usage = "most `TIME` that is measured, about; unset means a minute"
	cmd.Flags().Lookup("open").Usage = "leave a symbolic dim open and measure these values of it, `NAME=1,8,32` (repeatable)"
	return cmd
}

// tuneReport is what tune prints, and its JSON.
type tuneReport struct {
	Model string `json:"model"`
	carve.TunedReport
	Known    bool    `json:"known"`
	Measured int     `json:"measured"`
	Cached   int     `json:"cached"`
	Left     int     `json:"left"`
	TuneMS   float64 `json:"tune_ms"`

	Profiles []carve.ProfileRate `json:"profiles,omitempty"`
}

func (a *app) tune(ctx context.Context, path string, f *tuneFlags) error {
	j, o, err := a.prepare(ctx, path, &f.modelFlags)
	if err != nil {
		return err
	}
	defer j.close()
	j.binding.say(a)
	if err := complete(j.model.Graph(), j.binding, j.feeds); err != nil {
		return err
	}
	most := o.Budget
	o.Budget = 0
	p := a.progress("tune", 1)
	defer p.end()
	j.shown.Store(p)
	t, err := carve.Tune(ctx, j.model, &carve.TuneOptions{Options: o, Time: most, Inputs: j.feeds, Dims: j.binding.open})
	if err != nil {
		return err
	}
	p.end()
	r := &tuneReport{Model: path, TunedReport: t.TunedReport, Known: t.Known, Measured: t.Measured, Cached: t.Cached, Left: t.Left, TuneMS: milliseconds(t.Elapsed), Profiles: t.Profiles}
	if f.json {
		return writeJSON(a.stdout, r)
	}
	a.printTuning(r, t.Elapsed)
	return nil
}

func (a *app) printTuning(r *tuneReport, took time.Duration) {
	if r.Known {
		fmt.Fprintf(a.stdout, "known from the cache: %s\n", r.Choice)
	} else {
		fmt.Fprintf(a.stdout, "fastest: %s; %s measured, %d known before, %d modelled for want of time or since they do not run alone; %.3g s\n", r.Choice,
			counted(r.Measured, "candidate"), r.Cached, r.Left, took.Seconds())
	}
	t := newTable(a.stdout)
	unit := "ms"
	if len(r.Points) > 1 {
		unit = "ms, mean"
	}
	row(t, "choice", unit, "±")
	for _, x := range r.Runs {
		row(t, x.Choice, fmt.Sprintf("%.4g", x.Nanoseconds/1e6), fmt.Sprintf("%.2g", x.Noise/1e6))
	}
	t.Flush()
	for _, p := range r.Points {
		var at []string
		for _, name := range slices.Sorted(maps.Keys(p.Dims)) {
			at = append(at, fmt.Sprintf("%s = %d", name, p.Dims[name]))
		}
		if len(p.Runs) > 0 {
			fmt.Fprintf(a.stdout, "fastest at %s: %s, %.4g ms\n", strings.Join(at, ", "), p.Runs[0].Choice, p.Runs[0].Nanoseconds/1e6)
		}
	}
	if held := r.Held(); len(held) > 0 {
		fmt.Fprintf(a.stdout, "measured at %s\n", strings.Join(held, "; "))
	}
}

// printTuned says what a plan was chosen by; r may be nil.
func (a *app) printTuned(r *carve.TunedReport) {
	switch {
	case r == nil:
	case r.Choice == "":
		fmt.Fprintln(a.stdout, "not tuned with these options: times that were not measured are modelled")
	default:
		fmt.Fprintf(a.stdout, "chosen as tuning found fastest: %s\n", r.Choice)
		if held := r.Held(); len(held) > 0 {
			fmt.Fprintf(a.stdout, "measured at %s\n", strings.Join(held, "; "))
		}
	}
}
