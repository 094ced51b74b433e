package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	_ "golang.org/x/image/tiff" // for ImageDecoder
	_ "golang.org/x/image/webp" // for ImageDecoder

	"github.com/carve-dev/carve"
	_ "github.com/carve-dev/carve/backend/cpu"       // always linked
	_ "github.com/carve-dev/carve/backend/reference" // always linked
)

// Exit codes of Run.
const (
	ExitOK         = 0
	ExitError      = 1 // a fault of input, a check or test that failed
	ExitInfeasible = 3 // memplan: it is proven that no plan exists
	ExitNoPlan     = 4 // memplan: time ran out without a plan
)

// Run runs the tool with arguments, without the program's name, and returns the exit code. Canceling ctx ends every
// command soon. It is safe for concurrent use.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	out := &results{to: stdout}
	a := &app{stdout: out, stderr: stderr}
	defer func() {
		if r := recover(); r != nil {
			a.fail(fmt.Errorf("internal error: %v", r))
			code = ExitError
		}
	}()
	root := a.root()
	root.SetArgs(append([]string{}, args...)) // cobra takes nil for the arguments of the process
	root.SetOut(out)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = out.err
	}
	if err == nil {
		return ExitOK
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		a.fail(err)
		return ExitError
	}
	if exit.err == nil {
		exit.err = out.err
	}
	if exit.err != nil {
		a.fail(exit.err)
	}
	return exit.code
}

// results is stdout, which remembers the first error of writing there: results that nobody has read are no success.
type results struct {
	to  io.Writer
	err error
}

func (r *results) Write(p []byte) (int, error) {
	n, err := r.to.Write(p)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// exitError ends a command with a code of its own. Where err is nil nothing is printed: what there is to say is on stdout.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// app is one run of the tool.
type app struct {
	stdout, stderr io.Writer
}

func (a *app) root() *cobra.Command {
	root := ofCommands(&cobra.Command{
		Use:   "carve",
		Short: "Carves deep-learning models for several processors and runs them",
		Long: "carve compiles a model, of ONNX or of Apache MXNet: it carves the graph into subgraphs, each owned by one backend, puts layout and\n" +
			"device conversions on the edges between them, plans memory, and runs the whole.",
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	})
	root.SetFlagErrorFunc(flagFault)
	root.SetHelpCommand(helpCommand())
	root.AddCommand(a.runCommand(), a.inspectCommand(), a.partitionCommand(), a.reportCommand(), a.dumpCommand(), a.planCommand(), a.bundleCommand(), a.convertCommand(), a.onnxtestCommand(), a.benchCommand(), a.tuneCommand(), a.evalCommand(),
		a.backendsCommand(), a.memplanCommand(), a.versionCommand())
	root.AddCommand(a.nativeCommands()...)
	once(root)
	return root
}

// fail prints an error as one line.
func (a *app) fail(err error) {
	fmt.Fprintf(a.stderr, "carve: %s\n", oneLine(err.Error()))
}

// note prints a remark beside the result.
func (a *app) note(format string, args ...any) {
	fmt.Fprintf(a.stderr, "%s\n", oneLine(fmt.Sprintf(format, args...)))
}

// maxLine bounds the bytes of a message, which may quote a hostile model.
const maxLine = 4000

// oneLine makes text from anywhere fit for one line of a terminal: without a stack trace that follows it, line ends
// turned into "; ", control characters into spaces. Limits of memory go by the tool's names for them.
func oneLine(s string) string {
	s = strings.ReplaceAll(s, carve.ErrMemoryLimit.Error(), "more memory than --max-memory or --device-memory allow")
	if i := strings.Index(s, "\ngoroutine "); i >= 0 {
		s = s[:i]
	}
	if len(s) > maxLine {
		s = strings.ToValidUTF8(s[:maxLine], "") + "…"
	}
	lines := strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' })
	s = strings.Join(lines, "; ")
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, s)
}
