package warehouse

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"

	"cvs/collect/artifact"
	"cvs/warehouse/ingest"
)

// Loose makes runs of a result file that belongs to none: one, or as many as a
// published history holds. They have no plan: whatever is found becomes a cell.
// A single result gets the id loose-<first 12 digits of its sha256> and a start
// only if it gives one in epoch seconds; a run of a history is named by the time
// of its publication and its content. The error is that of [ingest.Parse]; name
// is kept as the path.
func Loose(name string, data []byte) ([]*artifact.Run, error) {
	sources, err := LooseSources(name, data)
	if err != nil {
		return nil, err
	}
	return runsOf(sources), nil
}

// LooseSources is [Loose] for [DB.LoadSources]. Of a history with lines that cannot
// be used it returns the rest beside the error.
func LooseSources(name string, data []byte) ([]*Source, error) {
	parts, history, broken := ingest.Split(name, data)
	if broken != nil && len(parts) == 0 {
		return nil, broken
	}
	if !history {
		s, err := looseRun(name, data)
		if err != nil {
			return nil, err
		}
		return []*Source{s}, nil
	}
	seen := make(map[string]bool)
	var runs []*Source
	for _, p := range parts {
		if seen[p.ID] {
			continue // an entry that stands twice in its file
		}
		seen[p.ID] = true
		s, err := published(name, p)
		if err != nil {
			return nil, err
		}
		runs = append(runs, s)
	}
	return runs, broken
}

// looseSuite is the suite of results that belong to no run.
const looseSuite = "loose"

func looseRun(name string, data []byte) (*Source, error) {
	doc, err := ingest.Parse(name, data)
	if err != nil {
		return nil, err
	}
	sha := doc.SHA256
	if sha == "" {
		s := sha256.Sum256(data)
		sha = hex.EncodeToString(s[:])
	}
	run := &artifact.Run{Meta: artifact.Meta{
		FormatVersion: artifact.FormatVersion, RunID: looseID(sha), Suite: looseSuite, Status: artifact.Done,
		EnforceOrigin: "a loose file has no thresholds",
	}}
	r := artifact.Result{Path: name, Data: data, SHA256: sha, Repeat: 1}
	if doc.Format == ingest.LMEval {
		r.CellKey = strings.TrimSuffix(path.Base(name), path.Ext(name))
		run.Accuracy = []artifact.Result{r}
	} else {
		run.Results = []artifact.Result{r}
	}
	if len(doc.Samples) > 0 {
		stated(&run.Meta, doc.Samples[0].Identity)
	}
	return &Source{Run: run, doc: doc, plain: true, filed: true}, nil
}

// published makes a run of one part of a history.
func published(name string, p ingest.Part) (*Source, error) {
	doc, err := ingest.Parse(name, p.Data)
	if err != nil {
		return nil, err
	}
	if len(doc.Samples) == 0 {
		return nil, fmt.Errorf("%s: a part of it holds no result", name)
	}
	s := sha256.Sum256(p.Data)
	run := &artifact.Run{Meta: artifact.Meta{
		FormatVersion: artifact.FormatVersion, RunID: "ci-" + p.ID, Suite: "ci-history", Status: artifact.Done,
		EnforceOrigin: "a published history has no thresholds",
	}}
	id := doc.Samples[0].Identity
	stated(&run.Meta, id)
	source := id.CIRun
	if at, ok := exactStart(id); ok {
		run.Meta.RunID = "ci-" + at.Format("20060102T150405Z") + "-" + p.ID[:8]
		if source == "" {
			source = "at-" + strconv.FormatInt(at.UnixMilli(), 10) // what was published together was measured together
		}
	}
	run.Meta.Labels = map[string]string{LabelCIRun: source}
	if id.Commit != "" {
		run.Meta.Labels[LabelCommit] = id.Commit
	}
	// named by its content: the same part found in another file is the same
	r := artifact.Result{Path: "published/" + p.ID + path.Ext(name), Data: p.Data, SHA256: hex.EncodeToString(s[:]), Repeat: 1}
	if p.Accuracy {
		r.CellKey = "published"
		run.Accuracy = []artifact.Result{r}
	} else {
		run.Results = []artifact.Result{r}
	}
	return &Source{Run: run, doc: doc, filed: true}, nil
}

// stated copies what a sample says of itself.
func stated(m *artifact.Meta, id ingest.Identity) {
	m.Identity = artifact.Identity{Model: id.Model, GPUSeen: id.GPU, Driver: id.Driver, Precision: id.Precision, Image: id.Image, NNodes: 1, PP: 1, DP: 1}
	if id.TP != nil && *id.TP > 0 && *id.TP < 1<<16 {
		m.Identity.TP = int(*id.TP)
	}
	if when, ok := exactStart(id); ok {
		m.StartedAt = &when
	}
}
