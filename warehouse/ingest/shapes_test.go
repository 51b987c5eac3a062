package ingest

import (
	"fmt"
	"testing"
)

// TestConstructedShapes reads shapes of which no real file may be kept here. They
// are constructed after what is known of the clients' keys at each age.
func TestConstructedShapes(t *testing.T) {
	t.Parallel()
	type want struct {
		metric string
		number float64
	}
	for name, x := range map[string]struct {
		text        string
		format      Format
		samples     int
		concurrency int64 // 0: not stated
		date        string
		values      []want
		without     []string // metrics that must not be made up
	}{
		"vLLM of 2024: no sums, no counts of failures, latency_ms": {
			`{"date": "20240901-101500", "backend": "vllm", "model_id": "org/M", "tokenizer_id": "org/M", "best_of": 1, "use_beam_search": false, "num_prompts": 500,
				"request_rate": "inf", "duration": 50.0, "completed": 500, "total_input_tokens": 100000, "total_output_tokens": 50000, "request_throughput": 10.0,
				"input_throughput": 2000.0, "output_throughput": 1000.0, "mean_ttft_ms": 100.5, "median_ttft_ms": 90.0, "std_ttft_ms": 5.0, "p99_ttft_ms": 300.0,
				"mean_latency_ms": 4000.5, "p99_latency_ms": 6000.0, "input_lens": [1, 2], "ttfts": [0.1, 0.2], "itls": [[0.01], []], "errors": ["", ""]}`,
			VLLM, 1, 0, "20240901-101500",
			[]want{{"output_throughput", 1000}, {"mean_ttft_ms", 100.5}, {"mean_e2el_ms", 4000.5}, {"p99_e2el_ms", 6000}, {"completed", 500}},
			[]string{"total_token_throughput", "failed", "max_concurrency"},
		},
		"vLLM of 2025, in part: latencies and nothing else": {
			`{"date": "20250301-101500", "backend": "openai-chat", "model_id": "org/M", "num_prompts": 10, "mean_ttft_ms": 1.5, "mean_tpot_ms": 2.5, "mean_itl_ms": 3.5}`,
			VLLM, 1, 0, "20250301-101500",
			[]want{{"mean_ttft_ms", 1.5}, {"mean_tpot_ms", 2.5}, {"mean_itl_ms", 3.5}, {"num_prompts", 10}},
			[]string{"output_throughput", "completed", "duration"},
		},
		"vLLM of 2025, appended: two runs in one .json": {
			`{"date": "20250401-101500", "backend": "vllm", "model_id": "org/M", "num_prompts": 2000, "max_concurrency": 64, "completed": 1015, "request_goodput:": 1.5, "output_throughput": 1.0, "mean_ttft_ms": 1.0}` + "\n" +
				`{"date": "20250401-111500", "backend": "vllm", "model_id": "org/M", "num_prompts": 2000, "max_concurrency": 64, "completed": 2000, "request_goodput:": null, "output_throughput": 2.0, "mean_ttft_ms": 1.0}`,
			VLLM, 2, 64, "20250401-101500",
			[]want{{"completed", 1015}, {"goodput", 1.5}, {"output_throughput", 1}},
			[]string{"failed"},
		},
		"a run of vllm bench sweep: the swept key of the server beside the result": {
			`{"date": "20260801-101500", "endpoint_type": "openai", "backend": "openai", "label": null, "model_id": "org/M", "num_prompts": 100, "request_rate": "inf",
				"max_concurrency": 32, "duration": 10.0, "completed": 100, "failed": 0, "total_input_tokens": 1000, "total_output_tokens": 2000, "output_throughput": 200.0,
				"total_token_throughput": 300.0, "mean_ttft_ms": 7.25, "p99_itl_ms": 8.5, "run_number": 1, "max_num_seqs": 256}`,
			VLLM, 1, 32, "20260801-101500",
			[]want{{"output_throughput", 200}, {"total_token_throughput", 300}, {"failed", 0}, {"mean_ttft_ms", 7.25}, {"p99_itl_ms", 8.5}},
			nil,
		},
		"several turns: no prompts, an instant with its zone": {
			`{"date": "2026-09-01T10:00:00Z", "mode": "multi-turn", "backend": "openai", "model_id": "org/M", "num_conversations": 20, "multi_turn_concurrency": 8,
				"duration": 60.0, "completed": 100, "failed": 1, "request_throughput": 1.66, "output_throughput": 500.0, "mean_ttft_ms": 12.5, "p99_tpot_ms": 30.0,
				"spec_decode_num_drafts": 1000, "spec_decode_num_accepted_tokens": 2000, "spec_decode_acceptance_rate": 66.5, "spec_decode_acceptance_length": 3.0,
				"per_turn_metrics": [{"turn": 1, "mean_ttft_ms": 20.0}, {"turn": 2, "mean_ttft_ms": 5.0}]}`,
			VLLM, 1, 8, "2026-09-01T10:00:00Z",
			[]want{{"completed", 100}, {"failed", 1}, {"mean_ttft_ms", 12.5}, {"p99_tpot_ms", 30}},
			[]string{"num_prompts"},
		},
		"sglang of 2026: 43 keys, a bare Infinity": {
			`{"tag": null, "backend": "sglang", "dataset_name": "random", "request_rate": Infinity, "max_concurrency": 16, "sharegpt_output_len": null, "random_input_len": 1024,
				"random_output_len": 512, "random_range_ratio": 1.0, "duration": 12.5, "completed": 64, "total_input_tokens": 65536, "total_output_tokens": 32768,
				"request_throughput": 5.12, "input_throughput": 5242.88, "output_throughput": 2621.44, "total_throughput": 7864.32, "mean_e2e_latency_ms": 3000.5,
				"median_e2e_latency_ms": 2900.0, "p90_e2e_latency_ms": 3500.25, "p99_e2e_latency_ms": 4000.0, "mean_ttft_ms": 50.0, "p95_itl_ms": 9.5, "concurrency": 15.5,
				"accept_length": null, "max_output_tokens_per_s": 2700.0, "max_concurrent_requests": 18, "server_info": {"internal_states": [{"model_path": "org/M"}]}}`,
			SGLang, 1, 16, "",
			[]want{{"total_token_throughput", 7864.32}, {"p90_e2el_ms", 3500.25}, {"median_e2el_ms", 2900}, {"p95_itl_ms", 9.5}, {"max_output_tokens_per_s", 2700}, {"max_concurrent_requests", 18}},
			[]string{"num_prompts", "failed"},
		},
		"a row of the InferenceX API: seconds, a day, a metrics object": {
			`{"hardware": "mi355x", "framework": "vllm", "model": "dsr1", "precision": "fp4", "isl": 1024, "osl": 1024, "conc": 64, "decode_tp": 8, "num_prefill_gpu": 8, "num_decode_gpu": 8,
				"disagg": false, "image": null, "date": "2026-02-01", "run_url": "https://github.com/x/y/actions/runs/123456/attempts/1",
				"metrics": {"tput_per_gpu": 1500.5, "output_tput_per_gpu": 750.25, "median_ttft": 0.25, "p99_ttft": 0.5, "median_tpot": 0.0125, "p99.9_ttft": 0.75, "median_intvty": 80.0}}`,
			InferenceX, 1, 64, "2026-02-01",
			[]want{{"per_gpu_throughput", 1500.5}, {"output_tput_per_gpu", 750.25}, {"median_ttft_ms", 250}, {"p99_ttft_ms", 500}, {"median_tpot_ms", 12.5}},
			[]string{"output_throughput", "mean_ttft_ms"},
		},
		"an InferenceX aggregate with its outcome; of several nodes the totals are not ours": {
			`{"hw": "b200", "infmax_model_prefix": "dsr1", "model": "org/M", "framework": "sglang", "precision": "fp8", "is_multinode": "true", "disagg": true, "tp": 8, "conc": 512,
				"isl": 1024, "osl": 1024, "tput_per_gpu": 900.5, "output_tput_tps": 100.0, "total_tput_tps": 200.0, "mean_ttft": 1.5,
				"benchmark_outcome": {"requested": 5120, "completed": 5000, "failed": 120}}`,
			InferenceX, 1, 512, "",
			[]want{{"per_gpu_throughput", 900.5}, {"mean_ttft_ms", 1500}, {"num_prompts", 5120}, {"completed", 5000}, {"failed", 120}},
			[]string{"output_throughput", "total_token_throughput"},
		},
		"AIPerf: the unit of each metric is its own": {
			`{"aiperf_version": "0.3.0", "time_to_first_token": {"unit": "ms", "avg": 12.5, "p50": 12.0, "p99": 20.0}, "request_latency": {"unit": "sec", "avg": 1.5, "p95": 2.0},
				"inter_token_latency": {"unit": "us", "avg": 9500.0}, "output_token_throughput": {"unit": "tokens/sec", "avg": 800.0}, "request_count": {"unit": "requests", "avg": 96},
				"error_request_count": {"unit": "requests", "avg": 4}, "start_time": "2026-08-01T10:00:00", "input_config": {"loadgen": {"concurrency": 8}, "endpoint": {"model_names": ["org/M"]}}}`,
			AIPerf, 1, 8, "2026-08-01T10:00:00",
			[]want{{"mean_ttft_ms", 12.5}, {"median_ttft_ms", 12}, {"p99_ttft_ms", 20}, {"mean_e2el_ms", 1500}, {"p95_e2el_ms", 2000}, {"mean_tpot_ms", 9.5}, {"output_throughput", 800}, {"completed", 96}, {"failed", 4}},
			nil,
		},
		"a submission around a result": {
			`{"submission": "x", "benchmark_args": {"model": "org/M", "backend": "vllm", "max_concurrency": 4, "random_input_len": 1024, "random_output_len": 1024, "num_prompts": 40},
				"output_throughput": 757.5, "total_token_throughput": 1515.0, "mean_ttft_ms": 55.5}`,
			Wrapped, 1, 4, "",
			[]want{{"output_throughput", 757.5}, {"total_token_throughput", 1515}, {"mean_ttft_ms", 55.5}},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Parse("result.json", []byte(x.text))
			if err != nil {
				t.Fatal(err)
			}
			if d.Format != x.format || len(d.Samples) != x.samples || len(d.Findings) != 0 {
				t.Fatalf("%s, %d samples, findings %v; want %s, %d", d.Format, len(d.Samples), d.Findings, x.format, x.samples)
			}
			s := d.Samples[0]
			if got := fmt.Sprint(s.Identity.Date, " ", x.concurrency == 0 && s.Identity.Concurrency == nil || s.Identity.Concurrency != nil && *s.Identity.Concurrency == x.concurrency); got != x.date+" true" {
				t.Errorf("date and concurrency: %s, %v; want %s, %d", s.Identity.Date, s.Identity.Concurrency, x.date, x.concurrency)
			}
			have := map[string]float64{}
			for _, v := range s.Values {
				if v.Metric != "" && v.Quality == OK {
					have[v.Metric] = v.Number
				}
			}
			for _, w := range x.values {
				if got, ok := have[w.metric]; !ok || got != w.number {
					t.Errorf("%s is %v (there: %t), want %v", w.metric, got, ok, w.number)
				}
			}
			for _, m := range x.without {
				if got, ok := have[m]; ok {
					t.Errorf("%s is %v: no such value was reported", m, got)
				}
			}
			keepsEverything(t, []byte(x.text), s)
		})
	}
}
