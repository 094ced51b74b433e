package carve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/backendtest/fake"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/graph/tensor/dlpack"
	"github.com/carve-dev/carve/partition"
)

func Example() {
	ctx := context.Background()
	model, err := carve.Open(ctx, "examples/quickstart/digits.onnx")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := carve.Compile(ctx, model, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	image := tensor.From(make([]float32, 64), 1, 1, 8, 8)
	out, err := program.Run(ctx, map[string]tensor.Value{"image": image})
	if err != nil {
		log.Fatal(err)
	}
	p := out["probabilities"].(*tensor.Tensor)
	fmt.Println(p.DType.Name(), p.Shape)
	// Output:
	// float32 [1 10]
}

// A graph may also be written as text, or made in code. Pins bind nodes to backends; what they cut off is converted.
func ExampleCompile() {
	ctx := context.Background()
	g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[N,3]
  %a = Exp(%x) "a"
  %b = Neg(%a) "b"
  %c = Abs(%b) "c"
  output %c
}`)
	if err != nil {
		log.Fatal(err)
	}
	model := carve.FromGraph(g)
	defer model.Close()
	program, err := carve.Compile(ctx, model, &carve.Options{
		Pins: []partition.Pin{{Node: "b", Backend: "reference"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	report, err := program.Report(ctx, map[string][]int{"x": {2, 3}})
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range report.Groups {
		fmt.Println(g.ID, g.Backend, g.Nodes)
	}
	where, why, _ := report.Why("b")
	fmt.Println(where, why[0].Backend, why[0].Reason)
	// Output:
	// 0 cpu [a]
	// 1 reference [b]
	// 2 cpu [c]
	// reference cpu pinned: the user pinned it to reference
}

// RunInto writes to tensors of the caller's, and allocates nothing at a shape that it has seen.
func ExampleProgram_RunInto() {
	ctx := context.Background()
	g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[N]
  %y = Relu(%x) "relu"
  output %y
}`)
	if err != nil {
		log.Fatal(err)
	}
	model := carve.FromGraph(g)
	defer model.Close()
	program, err := carve.Compile(ctx, model, &carve.Options{Backends: []backend.Config{{Name: "cpu"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	y := []float32{0, 0, 0}
	x := tensor.From([]float32{-1, 2, -3}, 3)
	if err := program.RunInto(ctx, []*tensor.Tensor{x}, []*tensor.Tensor{tensor.From(y, 3)}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(y)
	// Output:
	// [0 2 0]
}

// Inputs and outputs may lie in a device's memory: nothing is copied where a group there takes them, and runs follow each other
// by events. The device of this example is one that exists in memory alone.
func ExampleProgram_Enqueue() {
	ctx := context.Background()
	gpu := fake.New(fake.Options{Name: "gpu"})
	g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[N]
  %y = Relu(%x) "relu"
  output %y
}`)
	if err != nil {
		log.Fatal(err)
	}
	model := carve.FromGraph(g)
	defer model.Close()
	program, err := carve.Compile(ctx, model, &carve.Options{
		Backends: []backend.Config{{Name: "gpu"}}, Open: map[string]backend.Backend{"gpu": gpu},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()

	dev := gpu.Devices()[0]
	memory, err := dev.Alloc(2 * 256)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Free(memory)
	at := func(offset int) *carve.Formatted {
		return &carve.Formatted{Tensor: &tensor.Tensor{DType: tensor.Float32, Shape: []int{3}, Device: dev.ID(), Handle: memory.Handle, Offset: offset}}
	}
	x, y := at(0), at(256)

	stream, err := dev.NewStream() // the caller's own: it fills x, and the program's streams wait for that
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	if err := dev.CopyTo(ctx, stream, memory, 0, tensor.From([]float32{-1, 2, -3}).Bytes()); err != nil {
		log.Fatal(err)
	}
	if x.Ready, err = stream.Record(); err != nil {
		log.Fatal(err)
	}
	defer x.Ready.Close()

	done, err := program.Enqueue(ctx, []*carve.Formatted{x}, []*carve.Formatted{y})
	if err != nil {
		log.Fatal(err)
	}
	defer done.Close()
	if err := done.Wait(ctx); err != nil { // or let the next stream wait for it, or give it to the next run as Ready
		log.Fatal(err)
	}
	result := make([]float32, 3)
	if err := dev.CopyFrom(ctx, nil, tensor.From(result).Bytes(), memory, 256); err != nil {
		log.Fatal(err)
	}
	fmt.Println(result)
	// Output:
	// [0 2 0]
}

// What C code has made is read where it is; here the producer is carve as well. Views with strides, such as these columns, are
// taken as they are.
func ExampleFormatted() {
	ctx := context.Background()
	g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[N,2]
  %y = Neg(%x) "neg"
  output %y
}`)
	if err != nil {
		log.Fatal(err)
	}
	model := carve.FromGraph(g)
	defer model.Close()
	program, err := carve.Compile(ctx, model, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	columns, err := tensor.From([]float32{1, 2, 3, 4, 5, 6}, 2, 3).Slice(1, 1, 3)
	if err != nil {
		log.Fatal(err)
	}
	managed, err := dlpack.Export(columns, nil)
	if err != nil {
		log.Fatal(err)
	}
	in, err := dlpack.Import(managed)
	if err != nil {
		log.Fatal(err)
	}
	defer in.Close()
	out, err := program.Run(ctx, map[string]tensor.Value{"x": &carve.Formatted{Tensor: in.Tensor()}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tensor.Of[float32](out["y"].(*tensor.Tensor)))
	// Output:
	// [-2 -3 -5 -6]
}

// A picture is a page to open in a browser; it also answers for single nodes.
func ExampleProgram_Picture() {
	ctx := context.Background()
	g, err := graph.Parse(`graph {
  opset 17
  input %x: f32[4]
  %a = Neg(%x) "neg"
  %y = RandomNormalLike(%a) "noise"
  output %y
}`)
	if err != nil {
		log.Fatal(err)
	}
	model := carve.FromGraph(g)
	defer model.Close()
	program, err := carve.Compile(ctx, model, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	picture, err := program.Picture(ctx, &carve.PictureOptions{Model: "a model"})
	if err != nil {
		log.Fatal(err)
	}
	var page strings.Builder
	if err := picture.WriteHTML(&page); err != nil {
		log.Fatal(err)
	}
	node, _ := picture.Why("noise")
	fmt.Println("noise is on", node.Where)
	for _, b := range node.Backends {
		fmt.Println(b.Backend, b.Chosen, len(b.Reasons) > 0)
	}
	// Output:
	// noise is on reference
	// cpu false true
	// reference true false
}

// A server of one model: README's, with a request.
func ExampleBatcher() {
	ctx := context.Background()
	model, err := carve.Open(ctx, "examples/quickstart/digits.onnx")
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	program, err := carve.Compile(ctx, model, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer program.Close()
	mux := http.NewServeMux()
	serveDigits(mux, program)
	server := httptest.NewServer(mux)
	defer server.Close()
	answer, err := server.Client().Post(server.URL+"/digits", "application/json", strings.NewReader("[0.5, 1]"))
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	var probabilities []float32
	if err := json.NewDecoder(answer.Body).Decode(&probabilities); err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status, len(probabilities))
	// Output:
	// 200 OK 10
}

func serveDigits(mux *http.ServeMux, program *carve.Program) {
	batcher, err := carve.NewBatcher(program, nil)
	if err != nil {
		log.Fatal(err)
	}
	mux.HandleFunc("POST /digits", func(w http.ResponseWriter, r *http.Request) {
		var pixels [64]float32
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&pixels); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := batcher.Run(r.Context(), map[string]tensor.Value{"image": tensor.From(pixels[:], 1, 1, 8, 8)})
		switch {
		case errors.Is(err, carve.ErrOverloaded), errors.Is(err, carve.ErrDraining):
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			_ = json.NewEncoder(w).Encode(tensor.Elements[float32](out["probabilities"].(*tensor.Tensor)))
		}
	})
}
