package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/internal/bundle"
	"github.com/carve-dev/carve/internal/offheap"
	"github.com/carve-dev/carve/internal/units"
)

// mostPlan bounds the bytes of a plan that is read.
const mostPlan = 1 << 30

func (a *app) planCommand() *cobra.Command {
	cmd := ofCommands(&cobra.Command{
		Use:   "plan",
		Short: "Saves, shows, compares and applies what the compiler decides",
		Long: "A plan is a text: who runs which node, in which formats and groups, in which order, where everything lies, and what all that\n" +
			"holds for. Two plans of the same model differ in the lines that tell what changed.",
	})
	cmd.AddCommand(a.planSaveCommand(), a.planShowCommand(), a.planDiffCommand(), a.planApplyCommand())
	return cmd
}

func (a *app) planSaveCommand() *cobra.Command {
	f, output := &modelFlags{}, ""
	cmd := &cobra.Command{
		Use:   "save MODEL",
		Short: "Compiles a model and writes its plan",
		Args:  asUsed,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := apart("--output", output, f.reads(args[0])...); err != nil {
				return err
			}
			var text bytes.Buffer
			if err := a.savePlan(cmd.Context(), args[0], f, &text); err != nil {
				return err
			}
			if output == "" {
				_, err := text.WriteTo(a.stdout)
				return err
			}
			return replaceFile(output, func(w io.Writer) error {
				_, err := text.WriteTo(w)
				return err
			})
		},
	}
	f.add(cmd, shaping|overriding|compiling)
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE` instead of standard output")
	return cmd
}

// savePlan compiles a model and writes its plan.
func (a *app) savePlan(ctx context.Context, path string, f *modelFlags, w io.Writer) error {
	j, err := a.compile(ctx, path, f)
	if err != nil {
		return err
	}
	defer j.close()
	shapes, err := j.shapes()
	if err != nil {
		return err
	}
	return j.program.SavePlan(ctx, w, shapes)
}

func (a *app) planShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show PLAN",
		Short: "Shows what a plan holds for and how many groups each backend has",
		Args:  asUsed,
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := readPlan(args[0])
			if err != nil {
				return err
			}
			for _, s := range p.Facts() {
				fmt.Fprintln(a.stdout, cell(s))
			}
			fmt.Fprintln(a.stdout)
			t := newTable(a.stdout)
			row(t, "graph", "backend", "groups", "nodes", "modelled time")
			for _, s := range p.Summary() {
				row(t, s.Graph, s.Backend, s.Groups, s.Nodes, fmt.Sprintf("%.3f ms", s.Nanoseconds/1e6))
			}
			t.Flush()
			return nil
		},
	}
}

func (a *app) planDiffCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "diff PLAN PLAN",
		Short: "Says in what the second plan differs from the first; the exit code is 1 where it does",
		Args:  asUsed,
		RunE: func(_ *cobra.Command, args []string) error {
			was, err := readPlan(args[0])
			if err != nil {
				return err
			}
			is, err := readPlan(args[1])
			if err != nil {
				return err
			}
			list := was.Diff(is)
			for _, s := range list {
				fmt.Fprintln(a.stdout, cell(s))
			}
			if len(list) > 0 {
				return &exitError{code: ExitError}
			}
			return nil
		},
	}
}

func (a *app) planApplyCommand() *cobra.Command {
	f := &modelFlags{}
	cmd := &cobra.Command{
		Use:   "apply MODEL --plan FILE",
		Short: "Compiles a model as a plan says, and says in what the result differs from it",
		Long: "apply compiles a model with the plan of --plan, which other commands take as well. A plan that was made for another\n" +
			"model, for other options, backends, threads or for another processor is an error that names the difference; with --recompute\n" +
			"the model is compiled anew, and what is different then is printed.",
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.plan == "" {
				return fmt.Errorf("--plan FILE is missing")
			}
			was, err := readPlan(f.plan)
			if err != nil {
				return err
			}
			var text strings.Builder
			if err := a.savePlan(cmd.Context(), args[0], f, &text); err != nil {
				return err
			}
			is, err := carve.ParsePlan(text.String())
			if err != nil {
				return err
			}
			list := was.Diff(is)
			if len(list) == 0 {
				fmt.Fprintln(a.stdout, "the program is as the plan says")
			}
			for _, s := range list {
				fmt.Fprintln(a.stdout, cell(s))
			}
			return nil
		},
	}
	f.add(cmd, shaping|overriding|compiling)
	return cmd
}

// readPlan reads the plan in a file, which may be a bundle. What is no regular file is not opened.
func readPlan(path string) (*carve.Plan, error) {
	if bundle.IsFile(path) {
		m, err := carve.Open(context.Background(), path)
		if err != nil {
			return nil, err
		}
		defer m.Close()
		return m.Plan()
	}
	b, err := offheap.ReadRegular(path, mostPlan)
	switch {
	case errors.Is(err, offheap.ErrNotRegular):
		return nil, fmt.Errorf("%w: %w", carve.ErrPlanSyntax, err)
	case errors.Is(err, offheap.ErrSize):
		return nil, fmt.Errorf("%s: %w: it is larger than %s", path, carve.ErrPlanSyntax, units.Bytes(mostPlan))
	case err != nil:
		return nil, err
	}
	p, err := carve.ParsePlan(string(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}
