package reference_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing/fstest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// mix is splitmix64's finaliser, from which the zoo's weights and inputs are generated.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// uniform returns element i of the stream with that seed, in [0, 1).
func uniform(seed, i uint64) float64 {
	return float64(mix(seed+(i+1)*0x9E3779B97F4A7C15)>>40) * 0x1p-24
}

// zooWeights generates the external data of a model from its manifest: offset, count, seed, lo, hi, dims and name a line.
func zooWeights(manifest string) ([]byte, error) {
	f, err := os.Open(manifest)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var data []byte
	for s := bufio.NewScanner(f); s.Scan(); {
		line := s.Text()
		if i := strings.Index(line, " bytes="); strings.HasPrefix(line, "#") {
			if i >= 0 {
				n, err := strconv.Atoi(strings.Fields(line[i+len(" bytes="):])[0])
				if err != nil {
					return nil, err
				}
				data = make([]byte, n)
			}
			continue
		}
		var offset, count, seed uint64
		var lo, hi float64
		if _, err := fmt.Sscanf(line, "%d %d %x %g %g", &offset, &count, &seed, &lo, &hi); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", manifest, line, err)
		}
		span := hi - lo
		for i := range count {
			v := float32(lo + float64(span*uniform(seed, i)))
			binary.LittleEndian.PutUint32(data[offset+4*i:], math.Float32bits(v))
		}
	}
	return data, nil
}

// zooReference is a NAME.ref.json.
type zooReference struct {
	Inputs []struct {
		Name, Dtype, Seed, Kind string
		Dims                    []int
		Lo, Hi                  *float64
		N                       int
	}
	Outputs []struct {
		Name, Dtype string
		Dims        []int
		Stats       struct{ Std float64 }
		AllDiff     float64 `json:"ort_all_diff"`
		Step        int
		Values      []float64
	}
}

func (r *zooReference) inputs() ([]tensor.Value, error) {
	var out []tensor.Value
	for _, in := range r.Inputs {
		dt, _ := tensor.ParseDType(in.Dtype)
		t, err := tensor.New(dt, in.Dims...)
		if err != nil {
			return nil, err
		}
		seed, err := strconv.ParseUint(in.Seed, 16, 64)
		if err != nil {
			return nil, err
		}
		lo, hi := 0.0, 1.0
		if in.Lo != nil {
			lo = *in.Lo
		}
		if in.Hi != nil {
			hi = *in.Hi
		}
		v := make([]float64, t.Len())
		for i := range v {
			u := uniform(seed, uint64(i))
			switch in.Kind {
			case "uniform":
				v[i] = lo + (hi-lo)*u
			case "image":
				h, w := in.Dims[len(in.Dims)-2], in.Dims[len(in.Dims)-1]
				ch, y, x := i/(h*w), i/w%h, i%w
				k := uint64((ch*1024+y>>4)*1024 + x>>4)
				v[i] = lo + (hi-lo)*(0.75*uniform(seed^0xB10C, k)+0.25*u)
			case "randint":
				v[i] = math.Floor(u * hi)
			case "step":
				if i < in.N {
					v[i] = 1
				}
			case "half":
				if i >= len(v)/2 {
					v[i] = 1
				}
			}
		}
		if err := tensor.Encode(t, v); err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}

// runZoo evaluates a model and compares its outputs with those of its reference.
func runZoo(ctx context.Context, root, name string) error {
	b, err := os.ReadFile(filepath.Join(root, name+".ref.json"))
	if err != nil {
		return err
	}
	var ref zooReference
	if err := json.Unmarshal(b, &ref); err != nil {
		return err
	}
	model, err := os.ReadFile(filepath.Join(root, name+".onnx"))
	if err != nil {
		return err
	}
	weights, err := zooWeights(filepath.Join(root, name+".weights.txt"))
	if err != nil {
		return err
	}
	m, err := onnx.Parse(ctx, model, &onnx.Options{Data: fstest.MapFS{name + ".bin": {Data: weights}}})
	if err != nil {
		return err
	}
	in, err := ref.inputs()
	if err != nil {
		return err
	}
	got, err := evaluate(ctx, m.Graph, in, nil)
	if err != nil {
		return err
	}
	for i, o := range ref.Outputs {
		t := got[i].(*tensor.Tensor)
		if fmt.Sprint(t.Shape) != fmt.Sprint(o.Dims) {
			return fmt.Errorf("output %s has shape %v, want %v", o.Name, t.Shape, o.Dims)
		}
		worst := 0.0
		for k, want := range o.Values {
			worst = math.Max(worst, math.Abs(t.Float64At(k*max(o.Step, 1))-want))
		}
		limit := math.Max(1e-4, 20*o.AllDiff) * o.Stats.Std
		if !(worst <= limit) {
			return fmt.Errorf("output %s differs by %g, more than %g", o.Name, worst, limit)
		}
	}
	return nil
}

var _ = Describe("the model zoo", func() {
	root := filepath.Join("..", "..", "..", "shared", "models")
	check := func(ctx SpecContext, name string) {
		if _, err := os.Stat(root); err != nil {
			Skip("the model zoo is not here: " + root)
		}
		Expect(runZoo(ctx, root, name)).To(Succeed())
	}
	DescribeTable("gives the reference's outputs", check,
		Entry(nil, "bert_tiny"), Entry(nil, "gpt2_tiny_op17"), Entry(nil, "lstm_tagger"), Entry(nil, "shufflenet_v2_x1_0"))
	DescribeTable("gives the reference's outputs, the larger ones", Label("slow"), func(ctx SpecContext, name string) {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long: -ginkgo.label-filter=slow")
		}
		check(ctx, name)
	},
		Entry(nil, "bert_base"), Entry(nil, "bert_base_op17"), Entry(nil, "bert_tiny_op17"), Entry(nil, "densenet121"),
		Entry(nil, "densenet121_bn"), Entry(nil, "efficientnet_b0"), Entry(nil, "efficientnet_b0_bn"), Entry(nil, "gpt2_tiny"),
		Entry(nil, "inception_v3"), Entry(nil, "inception_v3_bn"), Entry(nil, "mobilenet_v2"), Entry(nil, "mobilenet_v2_bn"),
		Entry(nil, "resnet50"), Entry(nil, "resnet50_bn"), Entry(nil, "shufflenet_v2_x1_0_bn"), Entry(nil, "squeezenet1_1"),
		Entry(nil, "ssdlite320_mobilenet_v3_large"), Entry(nil, "unet"), Entry(nil, "unet_bn"), Entry(nil, "vgg11"),
		Entry(nil, "vit_b_16"), Entry(nil, "vit_b_16_op17"))
})
