package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

type evalFlags struct {
	modelFlags
	attrs  []string
	files  []string
	output string
}

func (a *app) evalCommand() *cobra.Command {
	f := &evalFlags{}
	cmd := &cobra.Command{
		Use:   "eval OP",
		Short: "Runs one operator",
		Long: "eval runs one operator, such as Softmax or com.microsoft.Gelu, of the newest version that is known, on inputs from files, and\n" +
			"prints its results. Attributes are written as in dumps: axis=1, alpha=0.5, pads=[0,0,1,1], mode=\"linear\".\n" +
			"An input \"-\" is left out.",
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error { return a.eval(cmd.Context(), args[0], f) },
	}
	f.add(cmd, compiling)
	repeatable(&f.attrs)(cmd, "attr", "attribute of the operator, `NAME=VALUE` (repeatable)")
	repeatable(&f.files)(cmd, "input", "`FILE.npy` or FILE.pb of the next input (repeatable)")
	text(&f.output)(cmd, "output", "write results to `FOLDER`")
	return cmd
}

func (a *app) eval(ctx context.Context, op string, f *evalFlags) error {
	var o carve.Options
	if err := f.apply(&o); err != nil {
		return err
	}
	o.Logger = a.logger()
	attrs, err := parseAttrs(f.attrs)
	if err != nil {
		return err
	}
	var inputs []*tensor.Tensor
	for _, file := range f.files {
		if file == "-" {
			inputs = append(inputs, nil)
			continue
		}
		v, err := readValue(file, graph.TensorType(tensor.Invalid, nil))
		if err != nil {
			return fmt.Errorf("--input %s: %w", file, err)
		}
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("--input %s: it is no tensor", file)
		}
		inputs = append(inputs, t)
	}
	e, err := carve.NewEvaluator(&o)
	if err != nil {
		return err
	}
	defer e.Close()
	results, err := e.Eval(ctx, op, attrs, inputs)
	if errors.Is(err, graph.ErrArity) {
		return fmt.Errorf("%w; --input FILE, once for each, gives the inputs in their order", err)
	}
	if err != nil {
		return err
	}
	start := time.Now()
	if _, err := e.Eval(ctx, op, attrs, inputs); err != nil { // compiled and warm
		return err
	}
	elapsed := time.Since(start)
	var ports []carve.Port
	out := map[string]tensor.Value{}
	for i, v := range results {
		name := fmt.Sprintf("result %d", i)
		ports = append(ports, carve.Port{Name: name})
		out[name] = v
	}
	files, err := writeOutputs(f.output, ports, out)
	if err != nil {
		return err
	}
	a.printOutputs(ports, out, files)
	a.note("run took %v", elapsed.Round(100*time.Nanosecond))
	return nil
}

// parseAttrs reads attributes in the text form of graphs.
func parseAttrs(list []string) ([]graph.Attr, error) {
	if len(list) == 0 {
		return nil, nil
	}
	g, err := graph.Parse("graph {\n  opset 1\n  %r = Constant(; " + strings.Join(list, ", ") + ")\n  output %r\n}")
	if err != nil {
		if place := (*graph.ParseError)(nil); errors.As(err, &place) {
			err = place.Err // lines are those of the text around the attributes
		}
		return nil, fmt.Errorf("--attr %s: expected NAME=VALUE, with a value such as 1, 0.5, [0,1] or \"linear\": %w", strings.Join(list, ", "), err)
	}
	p := g.Outputs[0].Producer
	if p == nil {
		return nil, fmt.Errorf("--attr %s: no attributes", strings.Join(list, ", "))
	}
	return p.Attrs, nil
}
