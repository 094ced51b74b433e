// Command batch scores the lines of a file with a model, by Apache Beam: on this machine by default, on any of Beam's runners by its flags.
//
//	go run . --model ../quickstart/digits.onnx --input records.csv --output scores.csv
//	go run . --runner dataflow --project P --region R --staging_location gs://B/staging --model gs://B/m.onnx --input gs://B/*.csv --output gs://B/scores.csv
//
// in this folder, which is a module of its own. From the root of the repository it is go run -C examples/batch, whose files are named from this folder on, too.
//
// A line is "ID,number,number…"; the output has a line "ID,number…" for each, in any order, and FILE.failed a line "ID,error" for each
// that the model does not run on. The program is its own worker: one static binary.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/gcs"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/local"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"github.com/carve-dev/carve/examples/batch/score"
)

func main() {
	model := flag.String("model", "", "ONNX `FILE`")
	input := flag.String("input", "", "`FILE` of records, or a pattern")
	output := flag.String("output", "", "`FILE` of scores")
	size := flag.Int("batch", 64, "most records in a run, `N`")
	flag.Parse()
	beam.Init() // a worker stays in here
	if *model == "" || *input == "" || *output == "" {
		fmt.Fprintln(os.Stderr, "batch: --model, --input and --output are wanted")
		os.Exit(2)
	}
	if err := score.Check(context.Background(), *input); err != nil {
		fmt.Fprintln(os.Stderr, "batch: --input:", err)
		os.Exit(1)
	}
	p, s := beam.NewPipelineWithRoot()
	score.Files(s, score.Options{Model: *model, Batch: *size}, *input, *output, *output+".failed")
	if err := beamx.Run(context.Background(), p); err != nil {
		fmt.Fprintln(os.Stderr, "batch:", err)
		os.Exit(1)
	}
}
