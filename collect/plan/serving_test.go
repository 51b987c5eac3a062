package plan

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestServing changes a shipped serving file and checks where each field goes.
// fail is a part of the one error that must come, warn of the one new warning.
func TestServing(t *testing.T) {
	t.Parallel()
	const file = "testdata/shipped/mi3xx_atom_vllm_deepseek-r1_fp8_single.json"
	server := func(s string) [2]string { return [2]string{`"backend": "vllm_atom",`, s} }
	bench := func(s string) [2]string { return [2]string{`"data_set_name": "random",`, s} }
	cases := []struct {
		name       string
		edits      [][2]string
		options    func(*Options)
		fail, warn string
		check      func(*Plan) any
		want       any
	}{
		{name: "defaults of the serving schema", check: func(p *Plan) any {
			q := p.Params
			return []any{p.Functional, q.ReuseServer, q.ClientPollCount, q.ServerPollCount, p.Enforce, q.MasterPort, q.Backend, p.Cells[0].ID}
		}, want: []any{Functional{true, true}, true, 80, 60, false, 29501, "vllm", "isl1024_osl1024-conc128"}},
		{name: "enforce_thresholds defaults to false", edits: [][2]string{{`"enforce_thresholds": false,`, ``}}, check: func(p *Plan) any { return p.EnforceOrigin }, want: "default of the serving schema"},
		{name: "a functional block keeps its own defaults", edits: [][2]string{{`"server_params"`, `"functional": {"api_smoke": true}, "server_params"`}}, check: func(p *Plan) any { return p.Functional }, want: Functional{APISmoke: true}},
		{name: "fields of the client", edits: [][2]string{bench(`"data_set_name": "sharegpt", "seed": 7, "burstiness": 2, "request_rate": "5", "client_initial_wait_s": 9, "bench_extra_args": "--x 'a b'", "server_poll_count": "7",`)},
			check: func(p *Plan) any {
				q := p.Params
				return []any{q.DatasetName, q.Seed, q.Burstiness, q.RequestRate, q.ClientInitialWait, q.BenchExtraArgs, q.ServerPollCount}
			}, want: []any{"sharegpt", 7, "2", "5", 9, []string{"--x", "a b"}, 7}},
		{name: "backend atom with arguments", edits: [][2]string{server(`"backend": "ATOM", "atom_args": ["-tp", "8"],`), {`"serve_args"`, `"_serve_args"`}}, check: func(p *Plan) any { return p.Params.Driver }, want: DriverATOM},
		{name: "backend atom without", edits: [][2]string{server(`"backend": "atom",`), {`"serve_args"`, `"_serve_args"`}}, fail: "server_params.atom_args: driver atom needs"},
		{name: "backend vllm means vllm_atom", edits: [][2]string{server(`"backend": "vllm",`)}, check: func(p *Plan) any { return p.Params.Driver }, want: DriverVLLMATOM},
		{name: "backend unknown", edits: [][2]string{server(`"backend": "trtllm",`)}, fail: "server_params.backend: expected one of"},
		{name: "typing error", edits: [][2]string{{`"tensor_parallelism"`, `"tensor_paralelism"`}}, fail: `server_params.tensor_paralelism: unknown key (did you mean "tensor_parallelism"?)`},
		{name: "context_length", edits: [][2]string{server(`"backend": "vllm_atom", "context_length": 5000,`)}, check: func(p *Plan) any { return p.Params.MaxModelLength }, want: 5000},
		{name: "two ports that differ", edits: [][2]string{server(`"backend": "vllm_atom", "proxy_router_serv_port": 8001,`)}, fail: "server_params.port_no: is "},
		{name: "two ports that agree", edits: [][2]string{server(`"backend": "vllm_atom", "proxy_router_serv_port": 8000,`)}, check: func(p *Plan) any { return p.Params.Port }, want: 8000},
		{name: "a key that contradicts the parallel size", edits: [][2]string{{`"tensor_parallelism": "8"`, `"tensor_parallelism": "4"`}}, fail: "the key says TP=8,PP=1 but the configuration says TP=4,PP=1"},
		{name: "the model of the server", edits: [][2]string{{`"id": "deepseek-ai/DeepSeek-R1-0528"`, `"id": ""`}}, check: func(p *Plan) any { return p.Model.ID }, want: "deepseek-ai/DeepSeek-R1-0528"},
		{name: "the model of the server differs", edits: [][2]string{{`"id": "deepseek-ai/DeepSeek-R1-0528"`, `"id": "org/other"`}}, warn: "is not used: model.id is", check: func(p *Plan) any { return p.Model.ID }, want: "org/other"},
		{name: "no effect", edits: [][2]string{server(`"backend": "vllm_atom", "log_level": "<changeme>",`)}, warn: "server_params.log_level: has no effect", check: func(p *Plan) any { return len(p.Cells) }, want: 3},
		{name: "arguments of another driver", edits: [][2]string{server(`"backend": "vllm_atom", "add_flags": ["--x"],`)}, warn: "server_params.add_flags: has no effect with driver vllm_atom", check: func(p *Plan) any { return p.Server.SGLangArgs }, want: []string{"--x"}},
		{name: "profiles", edits: [][2]string{{`"server_params"`, `"profiles": {"perf": {}}, "server_params"`}}, fail: "cannot have profiles"},
		{name: "profile flag", options: func(o *Options) { o.Profile = "mtp3" }, fail: "has only the implicit profile perf"},
		{name: "no runs: the whole catalogue", edits: [][2]string{{`"runs": [`, `"_runs": [`}}, check: func(p *Plan) any { return len(p.Cells) }, want: 3},
		{name: "sweep.runs before runs", edits: [][2]string{{`"runs": [`, `"sweep": {"runs": ["ISL=1024,OSL=1024,TP=8,PP=1,CONC=256"]}, "runs": [`}}, warn: "runs: has no effect", check: func(p *Plan) any { return p.Cells[0].Concurrency }, want: 256},
		{name: "cells of the threshold file", edits: [][2]string{{`"runs": [`, `"_runs": [`}, {`"sweeps": {`, `"sweeps": {}, "_sweeps": {`}}, warn: "cells of the threshold file", check: func(p *Plan) any { return len(p.Cells) }, want: 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m, o := filled(t, file, false)
			before := map[string]bool{}
			if p, err := load(m, o); err != nil {
				t.Fatal(err)
			} else {
				for _, w := range p.Warnings {
					before[w.Path+w.Msg] = true
				}
			}
			for _, e := range c.edits {
				if !bytes.Contains(m[o.ConfigFile], []byte(e[0])) {
					t.Fatalf("the file has no %q", e[0])
				}
				m[o.ConfigFile] = bytes.Replace(m[o.ConfigFile], []byte(e[0]), []byte(e[1]), 1)
			}
			if c.options != nil {
				c.options(&o)
			}
			p, err := load(m, o)
			if c.fail != "" {
				if err == nil || !strings.Contains(err.Error(), c.fail) {
					t.Errorf("got %v, want %q", err, c.fail)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, c.check(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var fresh []string
			for _, w := range p.Warnings {
				if !before[w.Path+w.Msg] && !strings.HasPrefix(w.Msg, "not in this sweep") {
					fresh = append(fresh, w.String())
				}
			}
			if all := strings.Join(fresh, "\n"); c.warn == "" && all != "" || !strings.Contains(all, c.warn) {
				t.Errorf("warnings %q, want %q", all, c.warn)
			}
		})
	}
}

// TestOtherProfiles: a mistake in a profile that is not used is said and stops
// nothing.
func TestOtherProfiles(t *testing.T) {
	t.Parallel()
	p, err := loadChanged(t, options(), change{"config", `"schema_version": 1`, `"profiles": {"perf": {}, "mtp3": {"functional": {"api_smok": true}, "params": {"port_no": 0}}}`})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range p.Warnings {
		got = append(got, w.Path)
	}
	want := []string{"profiles.mtp3.functional.api_smok", "profiles.mtp3.params.driver", "profiles.mtp3.params.port_no"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
