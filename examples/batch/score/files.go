package score

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/textio"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	register.Function4x0(parse)
	register.Function1x1(formatResult)
	register.Function1x1(formatFailure)
}

// Check returns an error where there is no file to read: Beam takes a name, or a pattern, that stands for none as an empty PCollection.
func Check(ctx context.Context, in string) error {
	fs, err := filesystem.New(ctx, in)
	if err != nil {
		return err
	}
	defer fs.Close()
	found, err := fs.List(ctx, in)
	if err == nil && len(found) == 0 {
		return fmt.Errorf("%s: no such file", in)
	}
	return err
}

// Files scores the lines of a file, "ID,number,number…" each, and writes a line with the model's answer for each to another, and a line
// "ID,error" for each record that it does not run on to a third. A file that would have no lines is not written.
func Files(s beam.Scope, o Options, in, out, failed string) {
	records, wrong := beam.ParDo2(s, parse, textio.Read(s, in))
	results, failures := Score(s, o, records)
	textio.Write(s, out, beam.ParDo(s, formatResult, results))
	textio.Write(s, failed, beam.ParDo(s, formatFailure, beam.Flatten(s, wrong, failures)))
}

// parse reads a line, unless it is blank.
func parse(_ context.Context, line string, emit func(Record), fail func(Failure)) {
	if strings.TrimSpace(line) == "" {
		return
	}
	fields := strings.Split(strings.TrimRight(line, "\r"), ",") // of a file with Windows' ends of lines
	r := Record{ID: fields[0]}
	for i, f := range fields[1:] {
		v, err := strconv.ParseFloat(strings.TrimSpace(f), 32)
		if err != nil {
			fail(Failure{r.ID, fmt.Sprintf("field %d, %q, is no number", i+2, f)})
			return
		}
		r.Values = append(r.Values, float32(v))
	}
	emit(r)
}

func formatResult(r Result) string {
	b := []byte(r.ID)
	for _, v := range r.Values {
		b = strconv.AppendFloat(append(b, ','), float64(v), 'g', -1, 32)
	}
	return string(b)
}

func formatFailure(f Failure) string { return f.ID + "," + f.Error }
