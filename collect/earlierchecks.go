package collect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"cvs/collect/artifact"
	"cvs/collect/check"
)

// What an earlier attempt at a run asked need not be asked again, if it would be
// asked of the same server in the same way.

// taskDigest identifies a check: what it asks, of which server. The last cell
// stands for the server, as it does for the checks themselves.
func (x *run) taskDigest(kind string, asks any) (string, error) {
	server, err := x.serverDigest()
	if err != nil {
		return "", err
	}
	quant := x.r.Options.QuantReference
	if kind != taskQuant {
		quant = Reference{}
	}
	acceptance := x.acceptance // of the artefacts, which may have been measured again
	if kind != taskMTP {
		acceptance = check.Acceptance{}
	}
	raw, err := json.Marshal(struct {
		Kind, Server string
		Version      int
		Asks         any
		Reference    Reference
		Acceptance   check.Acceptance
		MaxLength    int
	}{kind, server, check.Version, asks, quant, acceptance, x.p.Params.MaxModelLength})
	if err != nil {
		return "", fmt.Errorf("configuration digest of %s: %w", kind, err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// answered is the note on a task whose evidence of an earlier attempt stands: the
// check was carried out, whatever it found, in exactly this way, and its files
// are whole; "" for one that has to be carried out. Reading the run directory
// compared every file with its SHA-256.
func (e earlier) answered(digest string, t task) string {
	h, sha := e.evidence(t.file...)
	if h.Status != artifact.Done || h.ConfigDigest != digest {
		return ""
	}
	if t.kind == "accuracy" {
		for _, id := range t.ids {
			if !slices.ContainsFunc(e.accuracy, func(r artifact.Result) bool { return r.CellKey == id }) {
				return ""
			}
		}
	}
	return reused(h, sha)
}

func reused(h check.Header, sha string) string {
	return fmt.Sprintf("re-used: carried out at %s, same configuration digest, evidence whole (sha256 %s)", h.StartedAt.UTC().Format("2006-01-02 15:04:05 UTC"), clip(sha, 12))
}

// evidence is the head of a file below checks/ that an earlier attempt left, and
// the file's hash; nothing for one that is not whole.
func (e earlier) evidence(elem ...string) (check.Header, string) {
	var h check.Header
	res := e.checkFile(elem...)
	if res == nil || json.Unmarshal(res.Data, &h) != nil {
		return check.Header{}, ""
	}
	return h, res.SHA256
}

func (e earlier) checkFile(elem ...string) *artifact.Result {
	name := "checks"
	for _, part := range elem {
		name = path.Join(name, artifact.SafeName(part))
	}
	for i := range e.checks {
		if e.checks[i].Path == name {
			return &e.checks[i]
		}
	}
	return nil
}

// functionalBefore passes the functional blocks that an earlier attempt asked.
// Otherwise it notes what is going to be asked.
func (x *run) functionalBefore() (bool, error) {
	digest, err := x.taskDigest(check.FunctionalCheck, x.p.Functional)
	if err != nil {
		return false, err
	}
	h, sha := x.earlier.evidence("functional.json")
	if h.Status != artifact.Done || h.ConfigDigest != digest {
		x.asking = digest
		return false, nil
	}
	for _, block := range functionalBlocks(x.p.Functional) {
		if err := x.pass(artifact.Stage{Stage: block}, artifact.Done, reused(h, sha)); err != nil {
			return false, err
		}
	}
	return true, nil
}
