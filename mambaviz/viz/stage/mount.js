// The stage as a component of its own.

export default function mount({ data, parentElement, setStateValue }) {
  const root = parentElement.querySelector(".stage");
  if (parentElement.stage?.root !== root) {
    parentElement.stage?.leave();
    parentElement.stage = new Stage(root);
  }
  const { stage } = parentElement;
  stage.wishes.report = (view) => setStateValue("view", view);
  stage.reportDrawn = (run) => setStateValue("drawn", run);
  stage.take(data);
  return () => {
    stage.leave();
    delete parentElement.stage;
  };
}
