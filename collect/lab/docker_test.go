package lab

import (
	"strings"
	"testing"
)

func TestDocker(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	c := dial(t, l, 0)
	id := strings.TrimSpace(mustRun(t, c, "sudo -n docker run -d --name w1 --network host --ipc=host --shm-size 16G --cap-add SYS_PTRACE --security-opt seccomp=unconfined "+
		"--group-add video --ulimit memlock=-1 --label cvs.run_id=r1 --label cvs.owner=me -v "+l.modelsDir()+":"+l.modelsDir()+":ro -e K='v w' "+DemoImage+" sleep infinity"))
	if len(id) != 64 {
		t.Fatalf("docker run printed %q", id)
	}
	for _, tc := range []struct {
		name, command, stdin string
		want                 result
	}{
		{"exec passes code and streams", "docker exec w1 bash -c 'echo o; echo e >&2; exit 3'", "", result{out: "o\n", err: "e\n", code: 3}},
		{"exec has the container's environment", `docker exec -e X=1 -w /tmp w1 bash -c 'echo "$K $X $PWD $HOSTNAME"'`, "", result{out: "v w 1 /tmp " + id[:12] + "\n"}},
		{"exec -i passes stdin", "docker exec -i w1 cat", "in", result{out: "in"}},
		{"exec without -i has no stdin", "docker exec w1 cat", "in", result{}},
		{"exec of nothing", "docker exec w1 no_such 2>/dev/null", "", result{code: 127}},
		{"exec elsewhere", "docker exec w2 true", "", result{code: 1, err: "Error response from daemon: No such container: w2\n"}},
		{"exec signal", "docker exec w1 bash -c 'kill -9 $$'", "", result{code: 137}},
		{"a name is taken once", "docker run -d --name w1 " + DemoImage + " true 2>&1 | grep -o 'already in use'", "", result{out: "already in use\n"}},
		{"unknown flag", "docker run --frobnicate x 2>&1; echo $?", "", result{out: "unknown flag: --frobnicate\n\nUsage:  docker run [OPTIONS]\n\nRun 'docker run --help' for more information\n125\n"}},
		{"a mount of the machine's own", "docker run -d -v /home/u:/home/u -v " + l.modelsDir() + ":/models:ro " + DemoImage + " true 2>&1 | grep -o 'would need .*; '", "",
			result{out: "would need /home/u:/home/u, " + l.modelsDir() + ":/models:ro; \n"}},
		{"unknown command", "docker frob >/dev/null 2>&1", "", result{code: 1}},
		{"missing device", "docker run -d --device /dev/no_such " + DemoImage + " true 2>/dev/null", "", result{code: 125}},
		{"ps by anchored name", "docker ps --filter 'name=^w1$' --filter status=running --format '{{.Names}}'", "", result{out: "w1\n"}},
		{"ps by other name", "docker ps --filter 'name=^w$' --format '{{.Names}}'", "", result{}},
		{"ps by label", "docker ps -a --filter label=cvs.run_id=r1 -q --no-trunc", "", result{out: id + "\n"}},
		{"ps label function", `docker ps --format '{{.ID}} {{.Label "cvs.owner"}} {{.Image}}'`, "", result{out: id[:12] + " me " + DemoImage + "\n"}},
		{"ps json", "docker ps --format '{{json .}}' | grep -c '\"Names\":\"w1\"'", "", result{out: "1\n"}},
		{"inspect", `docker inspect --format '{{.Id}} {{.State.Running}} {{index .Config.Labels "cvs.run_id"}} {{.HostConfig.ShmSize}} {{(index .Mounts 0).RW}}' w1`, "",
			result{out: id + " true r1 16G false\n"}},
		{"inspect nothing", "docker inspect w2 2>/dev/null", "", result{out: "[]\n", code: 1}},
		{"container inspect", "docker container inspect -f '{{json .Config.Labels}}' " + id[:8], "", result{out: `{"cvs.owner":"me","cvs.run_id":"r1"}` + "\n"}},
		{"image digest", "docker image inspect --format '{{index .RepoDigests 0}}' " + DemoImage + " | cut -d: -f1", "", result{out: "cvs-lab/atom@sha256\n"}},
		{"image of the container", "[ \"$(docker inspect -f '{{.Image}}' w1)\" = \"$(docker image inspect -f '{{.Id}}' " + DemoImage + ")\" ]", "", result{}},
		{"images", "docker images --format '{{.Repository}}:{{.Tag}}' | grep -q '^" + DemoImage + "$'", "", result{}},
		{"pull", "docker pull -q some.registry:5000/org/img:1 >/dev/null && docker image inspect -f '{{json .RepoTags}}' some.registry:5000/org/img:1", "",
			result{out: `["some.registry:5000/org/img:1"]` + "\n"}},
		{"no image", "docker image inspect absent:1 2>&1 >/dev/null", "", result{out: "Error response from daemon: No such image: absent:1\n", code: 1}},
		{"login reads stdin", "docker login reg --username u --password-stdin", "pw", result{out: "Login Succeeded\n"}},
		{"login needs a password", "docker login reg --username u --password-stdin 2>/dev/null", "", result{code: 1}},
		{"load", "docker load", "org/tar:2\n", result{out: "", code: 0}},
		{"version", "docker version --format '{{.Server.Version}}'", "", result{out: "27.0.0\n"}},
		{"info", "docker info --format '{{.Name}}'", "", result{out: "lab-node-0\n"}},
		{"rm needs force", "docker rm w1 >/dev/null 2>&1", "", result{code: 1}},
		{"rm -f of nothing", "docker rm -f w2 2>/dev/null", "", result{}},
	} {
		got := run(t, c, tc.command, tc.stdin)
		if tc.name == "load" {
			got.out = ""
		}
		if got != tc.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.name, got, tc.want)
		}
	}
}

func TestDockerRemovesWhatItStarted(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{})
	c := dial(t, l, 0)
	mustRun(t, c, "docker run -d --name one "+DemoImage+" sleep infinity; docker run -d --name two "+DemoImage+" sleep infinity")
	// One process that hides in a session of its own, and a client that is killed.
	mustRun(t, c, "docker exec -d one bash -c 'setsid sleep 1001 & wait'")
	mustRun(t, c, "docker exec one sleep 1002 & p=$!; sleep 0.3; kill -9 $p; wait $p 2>/dev/null; true")
	one := strings.TrimSpace(mustRun(t, c, "docker inspect -f '{{.Id}}' one"))
	two := strings.TrimSpace(mustRun(t, c, "docker inspect -f '{{.Id}}' two"))
	// main, bash, two sleeps
	eventually(t, func() bool { p, _ := marked(envContainer + "=" + one); return len(p) == 4 }, func() string {
		p, err := marked(envContainer + "=" + one)
		return strings.TrimSpace(strings.Join([]string{"processes", string(rune('0' + len(p)))}, " ")) + errText(err)
	})
	mustRun(t, c, "docker rm -f one")
	if p, err := marked(envContainer + "=" + one); err != nil || len(p) > 0 {
		t.Errorf("rm -f left %v, %v", p, err)
	}
	if p, err := marked(envContainer + "=" + two); err != nil || len(p) != 1 {
		t.Errorf("the other container has %v, %v", p, err)
	}
	mustRun(t, c, "docker kill two")
	if got := mustRun(t, c, "docker ps -a --format '{{.Names}} {{.State}}'"); got != "two exited\n" {
		t.Errorf("after kill: %q", got)
	}
	if r := run(t, c, "docker exec two true", ""); r.code == 0 || !strings.Contains(r.err, "is not running") {
		t.Errorf("exec in a stopped container: %+v", r)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestDockerFaultsAndForeigners(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Faults: Faults{PullFails: true}})
	c := dial(t, l, 0)
	if r := run(t, c, "docker pull absent:1", ""); r.code == 0 || !strings.Contains(r.err, "pull access denied") {
		t.Errorf("pull: %+v", r)
	}
	id, err := l.PlantContainer(0, "cvs-lab", map[string]string{"owner": "somebody"})
	if err != nil {
		t.Fatal(err)
	}
	if got := mustRun(t, c, `docker inspect -f '{{.Id}} {{.State.Running}} {{.Config.Labels.owner}}' cvs-lab`); got != id+" true somebody\n" {
		t.Errorf("planted: %q", got)
	}
	if err := l.SetFaults(0, Faults{DockerDown: true}); err != nil {
		t.Fatal(err)
	}
	if r := run(t, c, "docker ps", ""); r.code != 1 || !strings.Contains(r.err, "Cannot connect to the Docker daemon") {
		t.Errorf("daemon down: %+v", r)
	}
}
