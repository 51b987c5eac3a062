package collect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cvs/collect/lab"
	"cvs/collect/plan"
)

const gpu8 = `{"gpu":0,"asic":{"market_name":"AMD Instinct MI300X","target_graphics_version":"gfx942"},` +
	`"usage":{"gfx_activity":{"value":%d,"unit":"%%"}},"mem_usage":{"total_vram":{"value":196592,"unit":"MB"},"used_vram":{"value":%d,"unit":"MB"}}}`

func eight(activity, used int) string {
	one := fmt.Sprintf(gpu8, activity, used)
	return "[" + strings.Repeat(one+",", 7) + one + "]"
}

// report is what the doctor says, a line a finding.
func report(t *testing.T, r *Runner) string {
	t.Helper()
	d := Doctor{Plan: r.Plan, Dial: r.Dial, Now: time.Now, Owner: "me@here"}
	found, err := d.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s %s: %s: %s\n", f.Host, f.Check, f.Verdict, f.Detail)
	}
	return b.String()
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		set   func(*testing.T, *Runner, *lab.Lab)
		want  []string
		ready bool
	}{
		{"healthy", func(*testing.T, *Runner, *lab.Lab) {}, []string{
			" ssh: ok: connected in ", " sudo: ok: without a password", " lock: ok", " docker: ok: version 27", " gpu: ok: 8 × AMD Instinct MI300X gfx942", " gpu: ok: idle",
			" image: ok: cvs-lab/atom:sim is sha256:", " container: ok: ", " model: ok: lab/sim-8b", " ports: ok: free", " clock: ok: ", " driver: ok: amdgpu ", "token: ok: "}, true},
		{"GPUs in use", func(t *testing.T, _ *Runner, l *lab.Lab) {
			answers(t, l, 0, map[string]string{"amd-smi": eight(97, 150000)})
		}, []string{" gpu: not ready: in use: GPU 0 (97 %, 150000 of 196592 MB)"}, false},
		{"another GPU", func(_ *testing.T, r *Runner, _ *lab.Lab) { r.Plan.GPUArch = "mi355x" },
			[]string{"but the config is for gpu_arch mi355x"}, false},
		{"too few GPUs", func(_ *testing.T, r *Runner, _ *lab.Lab) { r.Plan.Params.TP = 16 },
			[]string{"8 × AMD Instinct MI300X gfx942, but a server needs 16 here"}, false},
		{"docker down", func(t *testing.T, _ *Runner, l *lab.Lab) {
			if err := l.SetFaults(0, lab.Faults{DockerDown: true}); err != nil {
				t.Fatal(err)
			}
		}, []string{" docker: not ready: Cannot connect to the Docker daemon"}, false},
		{"foreign container", func(t *testing.T, r *Runner, l *lab.Lab) {
			if _, err := l.PlantContainer(0, r.Plan.Container.Name, nil); err != nil {
				t.Fatal(err)
			}
		}, []string{" container: not ready: a container named "}, false},
		{"shard missing", func(t *testing.T, r *Runner, _ *lab.Lab) {
			shards, err := filepath.Glob(filepath.Join(r.Plan.Paths.ModelsDir, "models--lab--sim-8b", "snapshots", "*", "model-00002*"))
			if err != nil || len(shards) != 1 {
				t.Fatal(shards, err)
			}
			if err := os.Remove(shards[0]); err != nil {
				t.Fatal(err)
			}
		}, []string{" model: not ready: lab/sim-8b is not whole: 1 of 2 shards of the index are not there"}, false},
		{"no token", func(_ *testing.T, r *Runner, _ *lab.Lab) { r.Plan.Paths.HFTokenFile = "/nowhere/token" },
			[]string{"token: not ready: paths.hf_token_file"}, false},
		{"another image name", func(_ *testing.T, r *Runner, _ *lab.Lab) { r.Plan.Container.Image = "registry.example/other:1" },
			[]string{" image: warning: registry.example/other:1 is not there; it will be pulled"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, l := labRun(t, lab.Faults{})
			answers(t, l, 0, map[string]string{"amd-smi": eight(0, 300)})
			tt.set(t, r, l)
			got := report(t, r)
			for _, w := range tt.want {
				if !strings.Contains(got, w) {
					t.Errorf("%q is not said in:\n%s", w, got)
				}
			}
			if ready := !strings.Contains(got, ": "+string(Unready)+": "); ready != tt.ready {
				t.Errorf("ready %v:\n%s", ready, got)
			}
		})
	}
}

// TestDoctorTwoNodes compares nodes and discovers what is between them.
func TestDoctorTwoNodes(t *testing.T) {
	t.Parallel()
	r, l := twoNodes(t, frameworks["vllm"])
	got := report(t, r)
	if want := " fabric: ok: eth0, HCAs "; !strings.Contains(got, want) {
		t.Errorf("%q is not said in:\n%s", want, got)
	}
	answers(t, l, 1, map[string]string{"ibv_devinfo": "1 HCA found:\n\tmlx5_7\n"})
	if got = report(t, r); !strings.Contains(got, "fabric: not ready: ") {
		t.Errorf("different devices are not said in:\n%s", got)
	}
}

// TestDoctorWithoutConfig looks at the nodes of a cluster file alone.
func TestDoctorWithoutConfig(t *testing.T) {
	t.Parallel()
	r, l := labRun(t, lab.Faults{})
	p, err := plan.LoadCluster(plan.Options{ClusterFile: l.ClusterFile(), OSUser: "me"})
	if err != nil {
		t.Fatal(err)
	}
	r.Plan = p
	got := report(t, r)
	for _, check := range []string{"ssh: ok", "sudo: ok", "docker: ok", "gpu: ok: "} {
		if !strings.Contains(got, check) {
			t.Errorf("%q is not said in:\n%s", check, got)
		}
	}
	for _, check := range []string{"model", "ports"} {
		if strings.Contains(got, " "+check+": ") {
			t.Errorf("%s was checked without a config:\n%s", check, got)
		}
	}
}

func TestParseGPUUse(t *testing.T) {
	t.Parallel()
	got, err := ParseGPUUse([]byte(`{"gpu_data":[{"gpu":3,"usage":{"gfx_activity":{"value":"N/A","unit":"%"}},"mem_usage":{"used_vram":{"value":12.5},"total_vram":"N/A"}},{"gpu":4,"usage":"N/A"}]}`))
	if err == nil || got != nil {
		t.Errorf("usage that is no object: %v, %v", got, err)
	}
	got, err = ParseGPUUse([]byte(`{"gpu_data":[{"gpu":3,"usage":{"gfx_activity":{"value":"N/A","unit":"%"}},"mem_usage":{"used_vram":{"value":12.5},"total_vram":"N/A"}}]}`))
	if err != nil || len(got) != 1 || got[0] != (GPUUse{Index: 3, Used: 12.5}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ParseGPUUse([]byte(`[{"gpu":`)); err == nil {
		t.Error("truncated: no error")
	}
}
