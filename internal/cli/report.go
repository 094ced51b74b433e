package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
)

type reportFlags struct {
	modelFlags
	output  string
	format  string
	profile bool
}

func (a *app) reportCommand() *cobra.Command {
	f := &reportFlags{}
	cmd := &cobra.Command{
		Use:   "report MODEL",
		Short: "Draws how a model is carved, as one file to look at in a browser",
		Long: "report compiles a model and writes what became of it: the graph of what runs, coloured by backend, with groups to fold\n" +
			"and unfold, conversions with their bytes and times, what each backend of the list is for every node (chosen, the reason why\n" +
			"not, the modelled time), memory over time with every buffer, and with --profile the timeline of a measured run.\n\n" +
			"The HTML file loads nothing from anywhere. JSON has the same for tools, DOT the graph for Graphviz.\n\n" + defaultData + "\n\n" + overrideHelp,
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error { return a.report(cmd.Context(), args[0], f) },
	}
	f.add(cmd, shaping|overriding|feeding|compiling)
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write to `FILE` instead of standard output")
	cmd.Flags().StringVar(&f.format, "format", "html", "`FORMAT` of the file: html, json or dot")
	cmd.Flags().BoolVar(&f.profile, "profile", false, "run the model, after a first run that is not measured, and show where its time went")
	return cmd
}

// writers are the formats of report.
var writers = map[string]func(*carve.Picture, io.Writer) error{
	"html": (*carve.Picture).WriteHTML, "json": (*carve.Picture).WriteJSON, "dot": (*carve.Picture).WriteDOT,
}

func (a *app) report(ctx context.Context, path string, f *reportFlags) error {
	write := writers[f.format]
	if write == nil {
		return fmt.Errorf("--format %s: expected html, json or dot", f.format)
	}
	if err := apart("--output", f.output, f.reads(path)...); err != nil {
		return err
	}
	f.edit = func(o *carve.Options) { o.CountIsolated = true }
	j, err := a.compile(ctx, path, &f.modelFlags)
	if err != nil {
		return err
	}
	defer j.close()
	var profile *carve.Profile
	if f.profile {
		if profile, err = a.profiled(ctx, j); err != nil {
			return err
		}
	}
	p, err := j.picture(ctx, filepath.Base(path), profile)
	if err != nil {
		return err
	}
	j.binding.say(a)
	if f.output == "" {
		return write(p, a.stdout)
	}
	return replaceFile(f.output, func(w io.Writer) error { return write(p, w) })
}

// Of profiled runs the fastest counts, since what else a machine does makes steps of one many times as long: of at most profiledRuns, in
// about profiledTime.
const (
	profiledRuns = 10
	profiledTime = time.Second
)

// profiled profiles runs behind a first one, and returns the fastest.
func (a *app) profiled(ctx context.Context, j *job) (*carve.Profile, error) {
	if err := complete(j.model.Graph(), j.binding, j.feeds); err != nil {
		return nil, err
	}
	end := j.running(a)
	defer end()
	if _, err := j.program.Run(ctx, j.feeds); err != nil {
		return nil, err
	}
	var best *carve.Profile
	for begin, k := time.Now(), 0; k == 0 || k < profiledRuns && time.Since(begin) < profiledTime; k++ {
		_, profile, err := j.program.RunProfiled(ctx, j.feeds)
		if err != nil {
			return nil, err
		}
		if best == nil || profile.Total < best.Total {
			best = profile
		}
	}
	return best, nil
}

// picture describes the plan for the job's shapes in full.
func (j *job) picture(ctx context.Context, model string, profile *carve.Profile) (*carve.Picture, error) {
	shapes, err := j.shapes()
	if err != nil {
		return nil, err
	}
	return j.program.Picture(ctx, &carve.PictureOptions{Model: model, Shapes: shapes, Profile: profile})
}
