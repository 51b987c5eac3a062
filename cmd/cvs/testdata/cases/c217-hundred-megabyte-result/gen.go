//go:build ignore

// go run gen.go > results/isl1024_osl1024_conc128/results.json
// About 100 MB on one line: detail arrays first, all scalars at the end.
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	w := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer w.Flush()
	w.WriteString(`{"date": "20260901-101500", "backend": "vllm", "itls": [`)
	x := uint32(1)
	for r := 0; r < 1000; r++ {
		if r > 0 {
			w.WriteString(", ")
		}
		w.WriteString("[")
		for i := 0; i < 5600; i++ {
			if i > 0 {
				w.WriteString(", ")
			}
			x = x*1664525 + 1013904223
			fmt.Fprintf(w, "0.0%d", 300000000000000+uint64(x)*4)
		}
		w.WriteString("]")
	}
	w.WriteString(`], "errors": [`)
	for r := 0; r < 1000; r++ {
		if r > 0 {
			w.WriteString(", ")
		}
		w.WriteString(`""`)
	}
	w.WriteString(`], "model_id": "example-org/Demo-70B-FP8", "num_prompts": 1000, "request_rate": "inf", "max_concurrency": 128, "duration": 500.0, "completed": 1000, `)
	w.WriteString(`"total_input_tokens": 1024000, "total_output_tokens": 1024000, "request_throughput": 2.0, "output_throughput": 2048.0, "total_token_throughput": 4096.0, `)
	for _, f := range []struct {
		n             string
		a, b, c, d, e float64
	}{{"ttft", 412.5, 380, 560, 640, 880}, {"tpot", 31.25, 31, 33, 33.5, 35}, {"itl", 31.25, 30.5, 34, 36, 48}, {"e2el", 32381.25, 32100, 33600, 34100, 35200}} {
		fmt.Fprintf(w, `"mean_%[1]s_ms": %[2]g, "median_%[1]s_ms": %[3]g, "p90_%[1]s_ms": %[4]g, "p95_%[1]s_ms": %[5]g, "p99_%[1]s_ms": %[6]g, `, f.n, f.a, f.b, f.c, f.d, f.e)
	}
	w.WriteString(`"burstiness": 1.0}` + "\n")
}
