package mxnet_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/internal/mxnettest"
	"github.com/carve-dev/carve/internal/zootest"
)

// typed returns an error about an error that is no *mxnet.Error.
func typed(err error) error {
	var own *mxnet.Error
	if err != nil && !errors.As(err, &own) {
		return errors.New("untyped: " + err.Error())
	}
	return nil
}

// loaded reads a model from bytes that may be anything, and verifies what comes of it.
func loaded(symbol, params []byte) error {
	m, err := mxnet.Parse(context.Background(), symbol, params, &mxnet.Options{MaxNodes: 1 << 12, MaxDense: 1 << 20})
	if err != nil {
		return typed(err)
	}
	return graph.Verify(m.Graph)
}

// regions is a symbol of what looks at places in images, and of an LSTM on integers.
const regions = `{"nodes":[{"op":"null","name":"x","attrs":{"__shape__":"(2,18,7,8)"},"inputs":[]},{"op":"null","name":"r","attrs":{"__shape__":"(4,5)"},"inputs":[]},
{"op":"null","name":"t","attrs":{"__shape__":"(4,2,3,3)"},"inputs":[]},{"op":"null","name":"a","attrs":{"__shape__":"(4,6)"},"inputs":[]},
{"op":"_contrib_PSROIPooling","name":"p","attrs":{"spatial_scale":"0.5","output_dim":"2","pooled_size":"3"},"inputs":[[0,0,0],[1,0,0]]},
{"op":"_contrib_DeformablePSROIPooling","name":"d","attrs":{"spatial_scale":"0.5","output_dim":"2","pooled_size":"3","group_size":"3","part_size":"3","sample_per_part":"2","trans_std":"0.1"},"inputs":[[0,0,0],[1,0,0],[2,0,0]]},
{"op":"_contrib_RROIAlign","name":"o","attrs":{"spatial_scale":"0.5","pooled_size":"(2, 3)","sampling_ratio":"-1"},"inputs":[[0,0,0],[3,0,0]]},
{"op":"null","name":"s","attrs":{"__shape__":"(3,2,4)"},"inputs":[]},{"op":"_contrib_quantize_asym","name":"q","inputs":[[7,0,0]]},
{"op":"null","name":"v","attrs":{"__shape__":"(160,)"},"inputs":[]},{"op":"null","name":"h","attrs":{"__shape__":"(1,2,4)"},"inputs":[]},
{"op":"_contrib_quantized_rnn","name":"l","attrs":{"mode":"lstm","num_layers":"1","state_size":"4","quantized":"true"},"inputs":[[8,0,0],[9,0,0],[10,0,0],[10,0,0],[8,1,0],[8,2,0]]}],
"heads":[[4,0,0],[5,0,0],[6,0,0],[11,0,0]],"attrs":{"mxnet_version":["int",10901]}}`

func FuzzParseSymbol(f *testing.F) {
	f.Add([]byte(mxnettest.Perceptron))
	f.Add([]byte(regions))
	f.Add(one("Reshape", `"shape":"(-3, 0, -4, 2, -1)","__shape__":"(2,3)"`, 800))
	f.Add([]byte(`{"nodes":[{"op":"null","name":"x","attrs":{"__shape__":"(2,3)"},"inputs":[]},{"op":"_foreach","name":"f","attrs":{"in_data_locs":"[0]","in_state_locs":"[]","remain_locs":"[]","num_args":"2","num_out_data":"1","num_outputs":"1"},"inputs":[[0,0]],"subgraphs":[{"nodes":[{"op":"null","name":"d","inputs":[]},{"op":"exp","name":"e","inputs":[[0,0]]}],"heads":[[1,0]]}]}],"heads":[[1,0]]}`))
	params := mxnettest.PerceptronParams()
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := loaded(b, params); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzParseParams(f *testing.F) {
	f.Add(mxnettest.PerceptronParams())
	f.Add([]byte("PK\x05\x06" + string(make([]byte, 18))))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := mxnet.ParseParams(b, &mxnet.ParamsOptions{MaxDense: 1 << 20})
		if err := typed(err); err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			if a.Tensor != nil && err == nil {
				if err := a.Tensor.Check(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// mutated changes some bytes of a file: numbers become extreme, pieces go or come twice.
func mutated(b []byte, r *rand.Rand) []byte {
	out := append([]byte{}, b...)
	for range 1 + r.IntN(4) {
		if len(out) < 2 {
			return out
		}
		at := r.IntN(len(out))
		switch r.IntN(6) {
		case 0:
			out[at] = byte(r.IntN(256))
		case 1:
			out[at] ^= 1 << r.IntN(8)
		case 2:
			out = out[:at]
		case 3:
			end := min(len(out), at+1+r.IntN(64))
			out = append(out[:at:at], out[end:]...)
		case 4:
			end := min(len(out), at+1+r.IntN(64))
			out = append(append(append([]byte{}, out[:end]...), out[at:end]...), out[end:]...)
		case 5:
			for k := at; k < min(len(out), at+8); k++ {
				out[k] = []byte{0, 0xff, '9', 0x7f}[r.IntN(4)]
			}
		}
	}
	return out
}

// corpus returns symbols and parameters to be mutated: two small ones, and those of MXNet beside the repository, where they are. What
// stands at one place in both belongs together.
func corpus() (symbols, params [][]byte) {
	symbols = [][]byte{[]byte(mxnettest.Perceptron), []byte(regions)}
	params = [][]byte{mxnettest.PerceptronParams(), mxnettest.PerceptronParams()} // of which regions needs none
	dir, err := zootest.Shared("mxnet-models")
	if err != nil {
		return symbols, params
	}
	for _, name := range []string{"control_flow", "lenet_module", "ops_index", "ops_norms", "ops_shapes", "transformer", "quant_uint8", "ssd_head", "rnn_fused"} {
		s, err1 := os.ReadFile(filepath.Join(dir, name, name+"-symbol.json"))
		p, err2 := os.ReadFile(filepath.Join(dir, name, name+"-0000.params"))
		if err1 == nil && err2 == nil {
			symbols, params = append(symbols, s), append(params, p)
		}
	}
	for _, name := range []string{"mx_sparse.params", "hand_v0.params", "mx_np_v3.params", "mxnet2_form_deflated.npz"} {
		if b, err := os.ReadFile(filepath.Join(dir, "params-formats", name)); err == nil {
			params = append(params, b)
		}
	}
	return symbols, params
}

// bounded calls f, and fails where it takes more memory than four times the file and 256 MiB.
func bounded(file int, f func()) {
	GinkgoHelper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", uint64(4*file+256<<20)))
}

// mutations reads so many mutated symbols, and as many files of parameters.
func mutations(n int, seed uint64) {
	GinkgoHelper()
	r := rand.New(rand.NewPCG(seed, 2))
	symbols, params := corpus()
	for i := range n {
		k := r.IntN(len(symbols))
		b := mutated(symbols[k], r)
		bounded(len(b)+len(params[k]), func() { Expect(loaded(b, params[k])).To(Succeed(), "symbol %d, round %d", k, i) })
	}
	for i := range n {
		b := mutated(params[r.IntN(len(params))], r)
		bounded(len(b), func() {
			_, err := mxnet.ParseParams(b, nil)
			Expect(typed(err)).To(Succeed(), "round %d", i)
		})
	}
}

var _ = Describe("mutated files", func() {
	It("are mutated from sound ones", func() {
		symbols, params := corpus()
		for i, s := range symbols[:2] { // others need to be told shapes
			m, err := mxnet.Parse(context.Background(), s, params[i], nil)
			Expect(err).NotTo(HaveOccurred(), "symbol %d", i)
			Expect(m.Graph.Outputs).NotTo(BeEmpty())
		}
	})
	It("give typed errors and sound graphs, in bounded memory", func() { mutations(3000, 1) })
	It("do so 20,000 times, and every bad file does", Label("slow"), func() {
		if !strings.Contains(GinkgoLabelFilter(), "slow") {
			Skip("takes long: -ginkgo.label-filter=slow")
		}
		paths, err := filepath.Glob(filepath.Join(shared("mxnet-models", "params-formats"), "bad_*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(len(paths)).To(BeNumerically(">=", 5))
		for _, path := range paths {
			b, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			bounded(len(b), func() {
				_, err := mxnet.ParseParams(b, nil)
				Expect(err).To(HaveOccurred(), path)
				Expect(typed(err)).To(Succeed(), path)
			})
		}
		mutations(20000, uint64(*seed)+1)
	})
})
