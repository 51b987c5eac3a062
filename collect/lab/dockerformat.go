package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"
)

// psRow is what a docker ps format sees.
type psRow struct {
	ID, Names, Image, Command, CreatedAt, Status, State, Labels, Mounts, Networks string

	labels map[string]string
}

// Label is the format function of the same name.
func (r psRow) Label(key string) string { return r.labels[key] }

// imageRow is what a docker images format sees.
type imageRow struct{ Repository, Tag, ID, Digest, CreatedAt, Size string }

func formatTemplate(format string) (*template.Template, error) {
	format = strings.NewReplacer(`\t`, "\t", `\n`, "\n").Replace(strings.TrimPrefix(format, "table "))
	t, err := template.New("").Funcs(template.FuncMap{
		"json": func(v any) (string, error) {
			b, err := json.Marshal(v)
			return string(b), err
		},
		"join": strings.Join, "upper": strings.ToUpper, "lower": strings.ToLower, "split": strings.Split,
		"println": fmt.Sprintln,
	}).Parse(format)
	if err != nil {
		return nil, fmt.Errorf("template parsing error: %w", err)
	}
	return t, nil
}

// dockerTemplate prints v by the format, or the text without one.
func (s *shim) dockerTemplate(format, text string, v any) error {
	if format == "" {
		fmt.Fprintln(s.stdout, text)
		return nil
	}
	if format == "json" {
		format = "{{json .}}"
	}
	t, err := formatTemplate(format)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, v); err != nil {
		return fmt.Errorf("template parsing error: %w", err)
	}
	fmt.Fprintln(s.stdout, b.String())
	return nil
}

func (s *shim) dockerPs(store dockerStore, a dockerArgs) error {
	all, err := store.list()
	if err != nil {
		return err
	}
	status := false
	keep := func(container) bool { return true }
	for _, f := range a.opts["--filter"] {
		key, value, ok := strings.Cut(f, "=")
		if !ok {
			return fmt.Errorf("invalid argument %q for \"-f, --filter\" flag: invalid filter %q: missing '='", f, f)
		}
		was := keep
		switch key {
		case "name":
			// Docker matches the name with and without its leading slash.
			re, err := regexp.Compile(value)
			if err != nil {
				return fmt.Errorf("Error response from daemon: invalid filter 'name=%s'", value)
			}
			keep = func(c container) bool {
				return was(c) && (re.MatchString(c.Name) || re.MatchString(strings.TrimPrefix(c.Name, "/")))
			}
		case "label":
			k, v, exact := strings.Cut(value, "=")
			keep = func(c container) bool {
				got, ok := c.Config.Labels[k]
				return was(c) && ok && (!exact || got == v)
			}
		case "status":
			status = true
			keep = func(c container) bool { return was(c) && c.State.Status == value }
		case "id":
			keep = func(c container) bool { return was(c) && strings.HasPrefix(c.ID, value) }
		case "ancestor":
			keep = func(c container) bool { return was(c) && c.Config.Image == value }
		default:
			return fmt.Errorf("Error response from daemon: invalid filter '%s'", key)
		}
	}
	t, err := formatTemplate(psFormat(a))
	if err != nil {
		return err
	}
	if a.last("--format") == "" && !a.has("--quiet") {
		fmt.Fprintln(s.stdout, "CONTAINER ID   IMAGE   COMMAND   STATUS   NAMES")
	}
	for _, c := range all {
		if !keep(c) || !c.State.Running && !a.has("--all") && !status {
			continue
		}
		var b bytes.Buffer
		if err := t.Execute(&b, c.row(a.has("--no-trunc"))); err != nil {
			return fmt.Errorf("template parsing error: %w", err)
		}
		fmt.Fprintln(s.stdout, b.String())
	}
	return nil
}

func psFormat(a dockerArgs) string {
	switch {
	case a.has("--quiet"):
		return "{{.ID}}"
	case a.last("--format") == "json":
		return "{{json .}}"
	case a.last("--format") != "":
		return a.last("--format")
	}
	return "{{.ID}}   {{.Image}}   {{.Command}}   {{.Status}}   {{.Names}}"
}

func (c container) row(full bool) psRow {
	id := c.ID
	if !full {
		id = id[:12]
	}
	var labels []string
	for _, k := range slices.Sorted(maps.Keys(c.Config.Labels)) {
		labels = append(labels, k+"="+c.Config.Labels[k])
	}
	status := "Up " + time.Since(c.State.StartedAt).Round(time.Second).String()
	if !c.State.Running {
		status = fmt.Sprintf("Exited (%d)", c.State.ExitCode)
	}
	return psRow{ID: id, Names: strings.TrimPrefix(c.Name, "/"), Image: c.Config.Image, Command: fmt.Sprintf("%q", strings.Join(c.Config.Cmd, " ")),
		CreatedAt: c.Created.Format("2006-01-02 15:04:05 -0700 MST"), Status: status, State: c.State.Status, Labels: strings.Join(labels, ","),
		Mounts: strings.Join(c.HostConfig.Binds, ","), Networks: c.HostConfig.NetworkMode, labels: c.Config.Labels}
}

func (s *shim) dockerImages(store dockerStore, a dockerArgs) error {
	all, err := store.images()
	if err != nil {
		return err
	}
	format := a.last("--format")
	switch {
	case a.has("--quiet"):
		format = "{{.ID}}"
	case format == "json":
		format = "{{json .}}"
	case format == "":
		fmt.Fprintln(s.stdout, "REPOSITORY   TAG   IMAGE ID   SIZE")
		format = "{{.Repository}}   {{.Tag}}   {{.ID}}   {{.Size}}"
	}
	t, err := formatTemplate(format)
	if err != nil {
		return err
	}
	for _, im := range all {
		if len(a.rest) > 0 {
			repo, tag := splitImage(a.rest[0])
			if im.Repository != repo || strings.Contains(a.rest[0], ":") && im.Tag != tag {
				continue
			}
		}
		id := im.ID
		if !a.has("--no-trunc") {
			id = strings.TrimPrefix(id, "sha256:")[:12]
		}
		_, digest, _ := strings.Cut(im.RepoDigests[0], "@")
		var b bytes.Buffer
		if err := t.Execute(&b, imageRow{im.Repository, im.Tag, id, digest, im.Created.Format(time.RFC3339), "1.07GB"}); err != nil {
			return fmt.Errorf("template parsing error: %w", err)
		}
		fmt.Fprintln(s.stdout, b.String())
	}
	return nil
}

// dockerInspect prints what it finds and fails for the rest, as Docker does.
func (s *shim) dockerInspect(store dockerStore, a dockerArgs) (int, error) {
	if len(a.rest) == 0 {
		return 1, fmt.Errorf("\"docker inspect\" requires at least 1 argument")
	}
	kind := a.last("--type")
	code := 0
	found := []any{}
	for _, ref := range a.rest {
		var v any
		if kind != "image" {
			c, ok, err := store.find(ref)
			if err != nil {
				return 1, err
			}
			if ok {
				v = c
			}
		}
		if v == nil && kind != "container" {
			im, ok, err := store.findImage(ref)
			if err != nil {
				return 1, err
			}
			if ok {
				v = im
			}
		}
		switch {
		case v == nil && kind == "image":
			s.errorf("Error response from daemon: No such image: %s", ref)
			code = 1
		case v == nil && kind == "container":
			s.errorf("%v", noSuch(ref))
			code = 1
		case v == nil:
			s.errorf("Error: No such object: %s", ref)
			code = 1
		default:
			found = append(found, v)
		}
	}
	if format := a.last("--format"); format != "" {
		for _, v := range found {
			if err := s.dockerTemplate(format, "", dockerView(v)); err != nil {
				return 1, err
			}
		}
		return code, nil
	}
	b, err := json.MarshalIndent(found, "", "    ")
	if err != nil {
		return 1, err
	}
	fmt.Fprintln(s.stdout, string(b))
	return code, nil
}

// dockerView gives a record to a format. Docker's formats say .Id where Go's
// field is ID, so the record goes through its JSON names.
func dockerView(v any) any {
	b, err := json.Marshal(v)
	if err != nil {
		return v
	}
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&m) != nil {
		return v
	}
	return m
}
