package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/internal/bundle"
)

func (a *app) convertCommand() *cobra.Command {
	f, opset, external := &modelFlags{}, 0, false
	cmd := &cobra.Command{
		Use:   "convert MODEL OUT.onnx",
		Short: "Writes a model as ONNX",
		Long: "convert loads a model, such as one of Apache MXNet, and writes it as ONNX. Operators of MXNet that ONNX has no word for are said in\n" +
			"several, with loops where one result needs the one before. Nothing is written where an operator has no standard form, or none in\n" +
			"the operator set of --opset: the error names the nodes.\n\n" +
			"Initializers that the model lists among its inputs are constants; --override NAME keeps one an input.",
		Args: asUsed,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.convert(cmd.Context(), args[0], args[1], f, opset, external)
		},
	}
	f.add(cmd, shaping|overriding)
	cmd.Flags().IntVar(&opset, "opset", 0, "operator set `N` of ONNX, from 13; 0 means the model's own")
	cmd.Flags().BoolVar(&external, "external-data", false, "write weights to a file beside the model, OUT.onnx.data")
	return cmd
}

func (a *app) convert(ctx context.Context, path, out string, f *modelFlags, opset int, external bool) error {
	if bundle.IsFile(path) {
		return fmt.Errorf("%s is a bundle: convert the model that it is made of", path)
	}
	if err := apart("OUT.onnx", out, f.reads(path)...); err != nil {
		return err
	}
	if external {
		if err := apart("--external-data", out+".data", f.reads(path)...); err != nil {
			return err
		}
	}
	m, err := f.open(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	g, err := m.Graph().Clone()
	if err != nil {
		return err
	}
	if err := mxnet.Expand(ctx, g); err != nil {
		return err
	}
	if err := standardOnly(g); err != nil {
		return err
	}
	if opset != 0 {
		if err := toOpset(g, opset); err != nil {
			return err
		}
	}
	src := onnx.Model{}
	if s := m.Source(); s != nil {
		src = *s
	}
	src.Graph, src.Opsets = g, g.Opsets
	o := &onnx.SaveOptions{}
	if external {
		o.External = filepath.Base(out) + ".data"
	}
	if err := onnx.Save(ctx, out, &src, o); err != nil {
		return err
	}
	a.note("%s: %d nodes, operator set %d", out, g.NumNodes(), g.Opsets[""])
	return nil
}

// everyNode calls f for the nodes of g and of its regions.
func everyNode(g *graph.Graph, f func(*graph.Node)) {
	for n := range g.Nodes() {
		f(n)
		for _, r := range n.Regions {
			everyNode(r.Graph, f)
		}
	}
}

// errConvert is about models that ONNX cannot say.
var errConvert = errors.New("the model cannot be converted")

// standardOnly refuses operators of other domains than ONNX's own, all of them at once.
func standardOnly(g *graph.Graph) error {
	found := map[string]bool{}
	everyNode(g, func(n *graph.Node) {
		switch n.Op.Domain {
		case "", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training":
		default:
			found[fmt.Sprintf("%v %q", n.Op, n.Name)] = true
		}
	})
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%w: no standard operators for %s", errConvert, listed(found))
}

// listed names some of a set.
func listed(set map[string]bool) string {
	names := slices.Sorted(maps.Keys(set))
	if len(names) > 20 {
		names = append(names[:20], fmt.Sprintf("and %d more", len(names)-20))
	}
	return strings.Join(names, ", ")
}

// meanings are operators that mean something else in versions before these, though a node may look the same.
var meanings = map[string]int{"GroupNormalization": 21, "GridSample": 20, "AveragePool": 19, "Resize": 19, "LayerNormalization": 17}

// toOpset gives nodes the versions of another operator set, where they are nodes of these too.
func toOpset(g *graph.Graph, opset int) error {
	newest := 0
	for _, op := range graph.Operators() {
		if op.Domain == "" {
			newest = max(newest, op.Since)
		}
	}
	if opset < 13 || opset > newest {
		return fmt.Errorf("--opset %d: expected 13 to %d", opset, newest)
	}
	missing := map[string]bool{}
	everyNode(g, func(n *graph.Node) {
		if n.Op.Domain != "" {
			return
		}
		was := n.Op.Since
		s := graph.LookupSchema("", n.Op.Name, opset)
		if s == nil || s.Since < meanings[n.Op.Name] && was >= meanings[n.Op.Name] {
			missing[fmt.Sprintf("%s %q", n.Op.Name, n.Name)] = true
			return
		}
		n.Schema, n.Op.Since = s, s.Since
		if err := graph.CheckNode(n); err != nil {
			missing[fmt.Sprintf("%s %q", n.Op.Name, n.Name)] = true
		}
	})
	if len(missing) > 0 {
		return fmt.Errorf("%w: operator set %d does not have %s", errConvert, opset, listed(missing))
	}
	g.Opsets[""] = opset
	return nil
}
