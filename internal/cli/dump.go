package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
)

type dumpFlags struct {
	modelFlags
	after  string
	output string
}

func (a *app) dumpCommand() *cobra.Command {
	f := &dumpFlags{}
	names := passNames()
	cmd := &cobra.Command{
		Use:   "dump MODEL",
		Short: "Prints the graph, and what is known of it, after a pass of the compiler",
		Long: "dump compiles a model and prints the text form of its graph as a pass has left it, and behind that what the pass has\n" +
			"made beside the graph: candidates for nodes, groups, bans, constants to pack. Passes that were run again, since nodes\n" +
			"were banned from a backend, are printed as they were left last. Where the model does not compile, what there is of the\n" +
			"pass is printed before the error.\n\n" +
			"Passes, in order: " + wrapped(names),
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error { return a.dump(cmd.Context(), args[0], f) },
	}
	f.modelFlags.add(cmd, shaping|overriding|compiling)
	cmd.Flags().StringVar(&f.after, "after", names[len(names)-1], "the `PASS` after which to print")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write to `FILE` instead of standard output")
	return cmd
}

func (a *app) dump(ctx context.Context, path string, f *dumpFlags) error {
	if err := apart("--output", f.output, f.reads(path)...); err != nil {
		return err
	}
	names := passNames()
	libraries, err := f.libraries()
	if err != nil {
		return err
	}
	for _, l := range libraries {
		for _, p := range l.Passes {
			names = append(names, p.Name)
		}
	}
	known := false
	for _, name := range names {
		known = known || name == f.after
	}
	if !known {
		return fmt.Errorf("--after %s: there is no such pass (there are: %s)", f.after, strings.Join(names, ", "))
	}
	var text bytes.Buffer
	f.edit = func(o *carve.Options) {
		o.DumpTo = func(pass string) io.Writer {
			if pass != f.after {
				return nil
			}
			text.Reset() // the latest counts
			return &text
		}
	}
	j, fault := a.compile(ctx, path, &f.modelFlags)
	if fault == nil {
		j.binding.say(a)
		j.close()
	}
	switch {
	case text.Len() == 0:
	case f.output != "":
		err = replaceFile(f.output, func(w io.Writer) error {
			_, err := text.WriteTo(w)
			return err
		})
	default:
		_, err = text.WriteTo(a.stdout)
	}
	if fault != nil {
		return fault
	}
	return err
}

// passNames returns the names of the pass table, in order.
func passNames() []string {
	var names []string
	for _, p := range carve.Passes() {
		names = append(names, p.Name)
	}
	return names
}

// wrapped joins names by commas, in lines of help texts.
func wrapped(names []string) string {
	const width = 100
	var b strings.Builder
	line := len("Passes, in order: ")
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
			if line+len(name) > width {
				b.WriteByte('\n')
				line = 0
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteString(name)
		line += len(name) + 2
	}
	return b.String() + "."
}
