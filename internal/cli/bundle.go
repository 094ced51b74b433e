package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
)

func (a *app) bundleCommand() *cobra.Command {
	f, output, portable := &modelFlags{}, "", false
	cmd := &cobra.Command{
		Use:   "bundle MODEL -o FILE",
		Short: "Compiles a model into one file that opens without being compiled",
		Long: "bundle compiles a model and writes the carved graph, the plan and the packed weights into one file, which is mapped when it is\n" +
			"opened. Every command that takes a model takes a bundle. It holds for the backends with their versions, the kind of processor,\n" +
			"the options and the threads that it was made for, which other commands take from it where no flag says otherwise; elsewhere\n" +
			"it is an error that names the difference, or, with --portable, the model is compiled there as from its file.",
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return errors.New("-o FILE is missing")
			}
			return a.bundle(cmd.Context(), args[0], f, output, portable)
		},
	}
	f.add(cmd, shaping|overriding|compiling)
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to `FILE`")
	cmd.Flags().BoolVar(&portable, "portable", false, "keep the model as it is, too, for processors and options that the bundle was not made for")
	return cmd
}

func (a *app) bundle(ctx context.Context, path string, f *modelFlags, output string, portable bool) error {
	if err := apart("--output", output, f.reads(path)...); err != nil {
		return err
	}
	j, err := a.compile(ctx, path, f)
	if err != nil {
		return err
	}
	defer j.close()
	shapes, err := j.shapes()
	if err != nil {
		return err
	}
	return j.program.SaveBundle(ctx, output, &carve.BundleOptions{Portable: portable, Shapes: shapes})
}
