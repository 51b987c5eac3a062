package plan

// LoadCluster reads a cluster file alone, for what is asked of nodes before
// there is a config. The plan has no cells; its container is the cluster file's,
// as far as that says one. Errors are as of [Load].
func LoadCluster(o Options) (*Plan, error) { return loadCluster(disk{}, o) }

func loadCluster(fsys files, o Options) (*Plan, error) {
	ps := &problems{rank: map[string]int{}}
	d := &draft{dc: newDecoder(ps), r: newRules()}
	d.Suite = "atom"
	if doc := d.read(fsys, "cluster", o.ClusterFile); doc != nil {
		d.ClusterSrc = doc.Source
		if doc.root != nil {
			d.loadCluster(doc, o)
		}
	}
	if ps.failed() {
		return nil, &Error{Problems: ps.sorted()}
	}
	d.Plan.Warnings = ps.warnings()
	return &d.Plan, nil
}
