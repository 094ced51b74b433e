package repository_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/examples/server/internal/modeltest"
	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
	"github.com/carve-dev/carve/graph/device"
	"github.com/carve-dev/carve/graph/tensor"
)

// adds returns the text of a model that adds a number to its input.
func adds(n float64) string {
	return fmt.Sprintf("graph \"adds\" {\n  opset 17\n  input %%x: f32[N]\n  const %%c = f32[1]{%g}\n  %%y: f32[N] = Add(%%x, %%c)\n  output %%y\n}", n)
}

// heavy returns the text of a model with n float32 weights.
func heavy(n int) string {
	return fmt.Sprintf("graph \"heavy\" {\n  opset 17\n  input %%x: f32[N,1]\n  input %%k: i64[1]\n  const %%w = f32[%d,1]{%s}\n  %%y: f32[1,1] = Gather(%%w, %%k)\n  output %%y\n}", n, zeros(n))
}

// spread is the text of a model that makes 1,000 numbers of each, followed by what else is done with them.
func spread(then string) string {
	return "graph \"spread\" {\n  opset 17\n  input %x: f32[N]\n  const %one = i64[1]{1}\n  const %by = i64[2]{1, 1000}\n  %c: f32[N,1] = Unsqueeze(%x, %one)\n  %m: f32[N,1000] = Expand(%c, %by)\n" + then + "\n  output %y\n}"
}

func zeros(n int) string {
	b := make([]byte, 0, 3*n)
	for i := range n {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(b, '0')
	}
	return string(b)
}

// result runs a model on 0.
func result(ctx context.Context, r *repository.Repository, name, version string) (float32, error) {
	v, err := r.Acquire(ctx, name, version)
	if err != nil {
		return 0, err
	}
	defer v.Release()
	out, _, err := v.Run(ctx, 0, map[string]tensor.Value{"x": tensor.From([]float32{0})})
	if err != nil {
		return 0, err
	}
	return tensor.Elements[float32](out["y"].(*tensor.Tensor))[0], nil
}

func write(dir, name string, version int, text string) {
	GinkgoHelper()
	Expect(modeltest.Write(dir, name, version, text)).To(Succeed())
}

func opened(ctx context.Context, dir string, o repository.Options) *repository.Repository {
	GinkgoHelper()
	r, err := repository.OpenDir(ctx, dir, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) { Expect(r.Close(ctx)).To(Succeed()) })
	return r
}

var _ = Describe("a repository", func() {
	It("serves the newest version, or those that the policy names", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		for _, v := range []int{1, 2, 10} {
			for _, name := range []string{"newest", "all", "two"} {
				write(dir, name, v, adds(float64(v)))
			}
		}
		Expect(modeltest.Configure(dir, "all", "version_policy { all {} }")).To(Succeed())
		Expect(modeltest.Configure(dir, "two", "version_policy { specific { versions: [1, 2] } }")).To(Succeed())
		r := opened(ctx, dir, repository.Options{})
		Expect(result(ctx, r, "newest", "")).To(BeEquivalentTo(10))
		_, err := result(ctx, r, "newest", "2")
		Expect(err).To(HaveField("Code", oip.NotFound))
		Expect(r.Versions("all")).To(Equal([]string{"1", "2", "10"}))
		Expect(result(ctx, r, "all", "2")).To(BeEquivalentTo(2))
		Expect(result(ctx, r, "two", "")).To(BeEquivalentTo(2))
	})

	It("reads any file system, single files and the files of one model", func(ctx context.Context) {
		b, err := modeltest.Encode(adds(3))
		Expect(err).NotTo(HaveOccurred())
		for name, at := range map[string]string{"": "plus.onnx", "plus": "model.onnx"} {
			r, err := repository.Open(ctx, fstest.MapFS{at: {Data: b, ModTime: time.Now()}}, repository.Options{Single: name})
			Expect(err).NotTo(HaveOccurred())
			Expect(result(ctx, r, "plus", "1")).To(BeEquivalentTo(3))
			Expect(r.Close(ctx)).To(Succeed())
		}
	})

	It("closes models that nobody uses, however late", func(ctx context.Context) {
		files := fstest.MapFS{}
		b, err := modeltest.Encode(adds(1))
		Expect(err).NotTo(HaveOccurred())
		for i := range 20 {
			files[fmt.Sprintf("m%d.onnx", i)] = &fstest.MapFile{Data: b, ModTime: time.Now()}
		}
		r, err := repository.Open(ctx, files, repository.Options{})
		Expect(err).NotTo(HaveOccurred())
		late, cancel := context.WithCancel(ctx)
		cancel()
		Expect(r.Close(late)).To(Succeed())
	})

	It("turns down configurations that it would not keep to, and names the field", func(ctx context.Context) {
		for text, says := range map[string]string{
			"optimization { }": "optimization", "max_batch_size: x": "int32", "name: 'other'": "other", "input [ { name: 'z' data_type: TYPE_FP32 } ]": `"z"`,
			"input [ { name: 'x' data_type: TYPE_INT8 } ]": "TYPE_INT8", "instance_group [ { kind: KIND_GPU } ]": "KIND_GPU", "platform: 'tensorflow_graphdef'": "tensorflow",
			"version_policy { specific { versions: 7 } }": "specific", "sequence_batching { state [ { input_name: 'q' } ] }": "state",
		} {
			dir := GinkgoT().TempDir()
			write(dir, "m", 1, adds(1))
			Expect(modeltest.Configure(dir, "m", text)).To(Succeed())
			r := opened(ctx, dir, repository.Options{})
			Expect(r.Ready()).To(BeFalse(), text)
			_, err := result(ctx, r, "m", "")
			Expect(err).To(MatchError(ContainSubstring(says)), text)
		}
	})

	It("follows its folder, and never reads what is still being written", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		write(dir, "m", 1, adds(1))
		r := opened(ctx, dir, repository.Options{})
		Expect(r.Poll(ctx)).To(Succeed())
		whole, err := modeltest.Encode(adds(2))
		Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(dir, "m", "2", "model.onnx")
		Expect(os.MkdirAll(filepath.Dir(file), 0o755)).To(Succeed())
		for n := 1; n <= len(whole); n += max(1, len(whole)/7) { // it grows between polls
			Expect(os.WriteFile(file, whole[:n], 0o600)).To(Succeed())
			Expect(r.Poll(ctx)).To(Succeed(), "nothing is loaded, so nothing fails")
			Expect(result(ctx, r, "m", "")).To(BeEquivalentTo(1))
		}
		Expect(os.WriteFile(file, whole, 0o600)).To(Succeed())
		Expect(r.Poll(ctx)).To(Succeed())
		Expect(r.Poll(ctx)).To(Succeed())
		Expect(result(ctx, r, "m", "")).To(BeEquivalentTo(2))

		Expect(os.WriteFile(file, whole[:len(whole)/2], 0o600)).To(Succeed()) // it stays half-written
		Expect(r.Poll(ctx)).To(Succeed())
		Expect(r.Poll(ctx)).NotTo(Succeed())
		Expect(result(ctx, r, "m", "")).To(BeEquivalentTo(2), "what was there goes on")
		Expect(r.Poll(ctx)).To(Succeed(), "and is not tried again")

		write(dir, "n", 1, adds(5))
		Expect(os.RemoveAll(filepath.Join(dir, "m"))).To(Succeed())
		Expect(r.Poll(ctx)).To(Succeed())
		Expect(r.Poll(ctx)).To(Succeed())
		Expect(result(ctx, r, "n", "")).To(BeEquivalentTo(5))
		_, err = result(ctx, r, "m", "")
		Expect(err).To(HaveField("Code", oip.NotFound))
	})

	It("exchanges versions under load: every request has one version's answer", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		write(dir, "m", 1, adds(1))
		r := opened(ctx, dir, repository.Options{Explicit: true})
		Expect(r.Load(ctx, "m", repository.Upload{})).To(Succeed())
		var group sync.WaitGroup
		var over atomic.Bool
		var answered atomic.Int64
		for range 4 {
			group.Go(func() {
				defer GinkgoRecover()
				for !over.Load() {
					y, err := result(ctx, r, "m", "")
					if err != nil {
						Expect(err).To(HaveField("Code", oip.Unavailable))
						continue
					}
					Expect(y).To(Or(BeEquivalentTo(1), BeEquivalentTo(2)))
					answered.Add(1)
				}
			})
		}
		for i := range 60 {
			text, err := modeltest.Encode(adds(float64(1 + i%2)))
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Load(ctx, "m", repository.Upload{Config: []byte("{}"), Files: map[string][]byte{"1/model.onnx": text}})).To(Succeed())
			if before := answered.Load(); i%3 == 0 {
				Eventually(answered.Load).WithTimeout(time.Minute).Should(BeNumerically(">", before+1))
			}
			if i%10 == 9 {
				Expect(r.Unload("m")).To(Succeed())
			}
		}
		over.Store(true)
		group.Wait()
	})

	It("turns down uploads that are none", func(ctx context.Context) {
		r := opened(ctx, GinkgoT().TempDir(), repository.Options{Explicit: true})
		for _, u := range []repository.Upload{
			{Config: []byte("{"), Files: map[string][]byte{"1/model.onnx": nil}}, {Files: map[string][]byte{"1/model.onnx": nil}},
			{Config: []byte("{}"), Files: map[string][]byte{"../../x": nil}}, {Config: []byte("{}"), Files: map[string][]byte{"1/model.onnx": []byte("none")}},
			{Config: []byte(`{"max_batch_size":-1}`)},
		} {
			Expect(r.Load(ctx, "m", u)).To(HaveField("Code", oip.InvalidArgument))
		}
		Expect(r.Load(ctx, strings.Repeat("m", 256), repository.Upload{Config: []byte("{}"), Files: map[string][]byte{"1/model.onnx": nil}})).To(MatchError(ContainSubstring("model name")))
		Expect(r.Load(ctx, "m", repository.Upload{})).To(HaveField("Code", oip.NotFound))
	})

	It("remembers a bounded number of names that clients have made up", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		write(dir, "lies", 1, adds(1))
		r := opened(ctx, dir, repository.Options{Explicit: true})
		text, err := modeltest.Encode(adds(1))
		Expect(err).NotTo(HaveOccurred())
		upload := func(name string, file []byte) error {
			return r.Load(ctx, name, repository.Upload{Config: []byte("{}"), Files: map[string][]byte{"1/model.onnx": file}})
		}
		Expect(upload("stays", text)).To(Succeed())
		for i := range 1000 {
			name := fmt.Sprint("n", i)
			if i%2 == 0 {
				Expect(upload(name, []byte("none"))).NotTo(Succeed())
			} else {
				Expect(upload(name, text)).To(Succeed())
				Expect(r.Unload(name)).To(Succeed())
			}
		}
		var group sync.WaitGroup
		for k := range 4 { // names that are forgotten while they are loaded again
			group.Go(func() {
				defer GinkgoRecover()
				for i := range 300 {
					name := fmt.Sprint("again", (i*7+k)%290)
					Expect(upload(name, []byte("none"))).NotTo(Succeed())
					if i%10 == 0 {
						name := fmt.Sprint("loaded", k, i)
						Expect(upload(name, text)).To(Succeed())
						y, err := result(ctx, r, name, "")
						Expect(y, err).To(BeEquivalentTo(1))
						Expect(r.Unload(name)).To(Succeed())
					}
				}
			})
		}
		group.Wait()
		Expect(len(r.Index())).To(BeNumerically("<", 300))
		for _, name := range []string{"stays", "lies"} {
			Expect(r.Index()).To(ContainElement(HaveField("Name", name)))
		}
		Expect(r.Load(ctx, "lies", repository.Upload{})).To(Succeed())
		_, err = result(ctx, r, "stays", "")
		Expect(err).NotTo(HaveOccurred())
	})

	It("keeps below its limit of memory, and brings models back that are asked for", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		for i := range 4 {
			write(dir, fmt.Sprint("m", i), 1, heavy(50_000)) // 200 kB each
		}
		run := func(r *repository.Repository, name string) error {
			v, err := r.Acquire(ctx, name, "")
			if err != nil {
				return err
			}
			defer v.Release()
			_, _, err = v.Run(ctx, 0, map[string]tensor.Value{"x": tensor.From([]float32{0}, 1, 1), "k": tensor.From([]int64{0})})
			return err
		}
		const limit = 700_000
		r := opened(ctx, dir, repository.Options{MemoryLimit: limit})
		for i := range 40 {
			Expect(run(r, fmt.Sprint("m", i%4))).To(Succeed())
			total := int64(0)
			for _, n := range r.Memory() {
				total += n
			}
			Expect(total).To(And(BeNumerically("<=", limit), BeNumerically(">", 0)))
		}
		Expect(len(r.Memory())).To(BeNumerically("<", 4), "some were unloaded")
		Expect(r.Ready()).To(BeTrue(), "all can be asked")
		var group sync.WaitGroup
		for k := range 4 {
			group.Go(func() {
				defer GinkgoRecover()
				for i := range 20 {
					if err := run(r, fmt.Sprint("m", (i+k)%4)); err != nil {
						Expect(err).To(HaveField("Code", oip.Unavailable))
					}
				}
			})
		}
		group.Wait()
		small := opened(ctx, dir, repository.Options{MemoryLimit: 1000})
		Expect(run(small, "m0")).To(HaveField("Code", oip.Unavailable))
	})

	DescribeTable("warms up with no more memory than its limit", func(ctx context.Context, text, sample string, rows int, says string) {
		dir := GinkgoT().TempDir()
		write(dir, "m", 1, text)
		Expect(modeltest.Configure(dir, "m", fmt.Sprintf("model_warmup [ { name: 'w' inputs { key: 'x' value { data_type: TYPE_FP32 dims: %d %s } } } ]", rows, sample))).To(Succeed())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := opened(ctx, dir, repository.Options{Explicit: true, MemoryLimit: 100_000_000})
		err := r.Load(ctx, "m", repository.Upload{})
		runtime.ReadMemStats(&after)
		Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 200_000_000))
		if says == "" {
			Expect(err).NotTo(HaveOccurred())
			return
		}
		Expect(err).To(And(HaveField("Code", oip.Unavailable), MatchError(ContainSubstring("model_warmup \"w\": "+says)), MatchError(ContainSubstring("the limit of memory is 100000000"))))
	},
		Entry("inputs", adds(1), "zero_data: true", 200_000_000, "its inputs have 800000000 bytes"),
		Entry("inputs of random numbers", adds(1), "random_data: true", 200_000_000, "its inputs have 800000000 bytes"),
		Entry("an output", spread("  %y: f32[N,1000] = Identity(%m)"), "random_data: true", 1_000_000, "its run"),
		Entry("what lies between", spread("  %s: f32[N,1000] = Softmax(%m; axis=0)\n  %y: f32[N] = ReduceMax(%s; axes=[1], keepdims=0)"), "zero_data: true", 1_000_000, "its run"),
		Entry("as much as fits", adds(1), "random_data: true", 5_000_000, ""),
	)

	It("makes no initial state that is larger than its limit", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		write(dir, "m", 1, modeltest.Total)
		Expect(modeltest.Configure(dir, "m", strings.Replace(modeltest.TotalConfig, "dims: [ 1 ]", "dims: [ 200000000 ]", 1))).To(Succeed())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := opened(ctx, dir, repository.Options{Explicit: true, MemoryLimit: 100_000_000})
		Expect(r.Load(ctx, "m", repository.Upload{})).To(MatchError(ContainSubstring("has 800000000 bytes, the limit of memory is 100000000")))
		runtime.ReadMemStats(&after)
		Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 100_000_000))
	})

	It("has no model whose runs cannot fit below its limit", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		write(dir, "m", 1, strings.ReplaceAll(adds(1), "[N]", "[200000000]"))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := opened(ctx, dir, repository.Options{Explicit: true, MemoryLimit: 100_000_000})
		Expect(r.Load(ctx, "m", repository.Upload{})).To(MatchError(And(ContainSubstring("800000000 bytes"), ContainSubstring("limit 100000000"))))
		runtime.ReadMemStats(&after)
		Expect(after.TotalAlloc - before.TotalAlloc).To(BeNumerically("<", 100_000_000))
	})
})

// breaks is whether the device of the backend "breakable" is lost.
var breaks atomic.Bool

func init() {
	backend.Register("breakable", func(backend.Config) (backend.Backend, error) {
		if breaks.Load() {
			return nil, fmt.Errorf("%w: %w", backend.ErrUnavailable, device.ErrGone)
		}
		return fake.New(fake.Options{Name: "breakable", Fail: func(fake.Call) error {
			if breaks.Load() {
				return device.ErrGone
			}
			return nil
		}}), nil
	})
}

var _ = Describe("a model on a device that is lost", func() {
	It("fails once, and is compiled anew for other backends", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		write(dir, "m", 1, adds(4))
		DeferCleanup(breaks.Store, false)
		r := opened(ctx, dir, repository.Options{Compile: carve.Options{Backends: []backend.Config{{Name: "breakable"}, {Name: "reference"}}, Placement: carve.Priority}})
		backends := func() (names []string) {
			GinkgoHelper()
			v, err := r.Acquire(ctx, "m", "")
			Expect(err).NotTo(HaveOccurred())
			defer v.Release()
			report, err := v.Program().Report(ctx, map[string][]int{"x": {1}})
			Expect(err).NotTo(HaveOccurred())
			for _, g := range report.Groups {
				names = append(names, g.Backend)
			}
			return names
		}
		Expect(result(ctx, r, "m", "")).To(Equal(float32(4)))
		Expect(backends()).To(Equal([]string{"breakable"}))
		breaks.Store(true)
		_, err := result(ctx, r, "m", "")
		Expect(err).To(MatchError(device.ErrGone))
		Expect(result(ctx, r, "m", "")).To(Equal(float32(4)))
		Expect(backends()).To(Equal([]string{"reference"}))
	})
})

// slow is called in each run of the backend "slow".
var slow atomic.Pointer[func()]

func init() {
	backend.Register("slow", func(backend.Config) (backend.Backend, error) {
		return fake.New(fake.Options{Name: "slow", Fail: func(c fake.Call) error {
			if f := slow.Load(); f != nil && c.Op == fake.Launch {
				(*f)()
			}
			return nil
		}}), nil
	})
}

var _ = Describe("runs", func() {
	It("of all models together are as many as there may be, batched or not, and it is told when they stay that many while requests are turned down", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		for _, name := range []string{"a", "b", "joined"} {
			write(dir, name, 1, adds(4))
		}
		Expect(modeltest.Configure(dir, "joined", "max_batch_size: 4\ndynamic_batching {}\n")).To(Succeed())
		var now, most, crowded atomic.Int64
		r := opened(ctx, dir, repository.Options{Runs: 2, Crowded: func(func() bool) { crowded.Add(1) },
			Compile: carve.Options{Backends: []backend.Config{{Name: "slow"}, {Name: "reference"}}, Placement: carve.Priority}})
		run := func() {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(5 * time.Millisecond)
			now.Add(-1)
		}
		slow.Store(&run)
		DeferCleanup(slow.Store, (*func())(nil))
		Expect(result(ctx, r, "a", "")).To(Equal(float32(4)))
		Expect(crowded.Load()).To(BeZero(), "one run leaves a place")
		ask := func() {
			var group sync.WaitGroup
			for i := range 24 {
				group.Go(func() {
					defer GinkgoRecover()
					Expect(result(ctx, r, []string{"a", "b", "joined"}[i%3], "")).To(Equal(float32(4)))
				})
			}
			group.Wait()
		}
		ask()
		Expect(most.Load()).To(BeEquivalentTo(2))
		Expect(crowded.Load()).To(BeZero(), "all wait in the queue")
		r.Strained()
		ask()
		Expect(crowded.Load()).To(BeNumerically(">", 0))
	})
})

var _ = Describe("memory", func() {
	ask := func(ctx context.Context, r *repository.Repository, name string) {
		GinkgoHelper()
		v, err := r.Acquire(ctx, name, "")
		Expect(err).NotTo(HaveOccurred())
		defer v.Release()
		_, _, err = v.Run(ctx, 0, map[string]tensor.Value{"x": tensor.From([]float32{0}, 1, 1), "k": tensor.From([]int64{0})})
		Expect(err).NotTo(HaveOccurred())
	}

	It("is taken from the model that was not used for the longest", func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		for _, name := range []string{"a", "b", "c"} {
			write(dir, name, 1, heavy(50_000)) // 200 kB each
		}
		r := opened(ctx, dir, repository.Options{MemoryLimit: 500_000, Explicit: true})
		resident := func() (names []string) {
			for v := range r.Memory() {
				names = append(names, v.Name)
			}
			return names
		}
		Expect(r.Load(ctx, "a", repository.Upload{})).To(Succeed())
		Expect(r.Load(ctx, "b", repository.Upload{})).To(Succeed())
		ask(ctx, r, "a")
		Expect(r.Load(ctx, "c", repository.Upload{})).To(Succeed())
		Expect(resident()).To(ConsistOf("a", "c"))
		ask(ctx, r, "a")
		ask(ctx, r, "b")
		Expect(resident()).To(ConsistOf("a", "b"))
	})

	It("counts files that came with calls, which stay when their models are unloaded for others", func(ctx context.Context) {
		r := opened(ctx, GinkgoT().TempDir(), repository.Options{MemoryLimit: 1_500_000, Explicit: true})
		text, err := modeltest.Encode(heavy(50_000))
		Expect(err).NotTo(HaveOccurred())
		load := func(i int) error {
			return r.Load(ctx, fmt.Sprint("m", i), repository.Upload{Config: []byte("{}"), Files: map[string][]byte{"1/model.onnx": text}})
		}
		n := 0
		for err = load(n); err == nil && n < 100; err = load(n) {
			n++
		}
		Expect(err).To(HaveField("Code", oip.Unavailable))
		Expect(n).To(And(BeNumerically(">=", 2), BeNumerically("<=", 7)), "200 kB each, and a copy of those that are loaded")
		for i := range n {
			ask(ctx, r, fmt.Sprint("m", i))
		}
		Expect(r.Unload("m0")).To(Succeed())
		Expect(load(n)).To(Succeed())
	})
})

// FuzzConfig reads configurations of both forms: none is a panic.
func FuzzConfig(f *testing.F) {
	f.Add([]byte("max_batch_size: 4 dynamic_batching { preferred_batch_size: [2, 4] }"))
	f.Add([]byte(modeltest.TotalConfig))
	f.Add([]byte(`{"name":"m","input":[{"name":"x","data_type":"TYPE_FP32","dims":["1"]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, parse := range []func([]byte) (*repository.Config, error){repository.ParseConfig, repository.ParseJSON} {
			c, err := parse(text)
			if err != nil {
				continue
			}
			if _, err := c.Wire(); err != nil {
				t.Error(err)
			}
			if _, err := c.MarshalJSON(); err != nil {
				t.Log(err)
			}
			c.Batching()
		}
	})
}
