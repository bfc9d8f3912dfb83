// Generated; do not edit. Types and descriptions are in index.d.ts.
import { callTool } from "../../client/mcp_client.js";

/** Cleanup all managed resources */
export async function cleanup(args = {}) {
  return callTool("kubernetes", "cleanup", args);
}

/** Get or list Kubernetes resources by resource type, name, and optionally namespace */
export async function kubectlGet(args = {}) {
  return callTool("kubernetes", "kubectl_get", args);
}

/** Describe Kubernetes resources by resource type, name, and optionally namespace */
export async function kubectlDescribe(args = {}) {
  return callTool("kubernetes", "kubectl_describe", args);
}

/** Apply a Kubernetes YAML manifest from a string or file */
export async function kubectlApply(args = {}) {
  return callTool("kubernetes", "kubectl_apply", args);
}

/** Delete Kubernetes resources by resource type, name, labels, or from a manifest file */
export async function kubectlDelete(args = {}) {
  return callTool("kubernetes", "kubectl_delete", args);
}

/** Create Kubernetes resources using various methods (from file or using subcommands) */
export async function kubectlCreate(args = {}) {
  return callTool("kubernetes", "kubectl_create", args);
}

/** Get logs from Kubernetes resources like pods, deployments, or jobs */
export async function kubectlLogs(args = {}) {
  return callTool("kubernetes", "kubectl_logs", args);
}

/** Scale a Kubernetes deployment */
export async function kubectlScale(args = {}) {
  return callTool("kubernetes", "kubectl_scale", args);
}

/** Update field(s) of a resource using strategic merge patch, JSON merge patch, or JSON patch */
export async function kubectlPatch(args = {}) {
  return callTool("kubernetes", "kubectl_patch", args);
}

/** Manage the rollout of a resource (e.g., deployment, daemonset, statefulset) */
export async function kubectlRollout(args = {}) {
  return callTool("kubernetes", "kubectl_rollout", args);
}

/** Manage Kubernetes contexts - list, get, or set the current context */
export async function kubectlContext(args = {}) {
  return callTool("kubernetes", "kubectl_context", args);
}

/** Reconnect to the Kubernetes API server by recreating all API clients. */
export async function kubectlReconnect(args = {}) {
  return callTool("kubernetes", "kubectl_reconnect", args);
}

/** Get documentation for a Kubernetes resource or field */
export async function explainResource(args = {}) {
  return callTool("kubernetes", "explain_resource", args);
}

/** Install a Helm chart with support for both standard and template-based installation */
export async function installHelmChart(args = {}) {
  return callTool("kubernetes", "install_helm_chart", args);
}

/** Upgrade an existing Helm chart release */
export async function upgradeHelmChart(args = {}) {
  return callTool("kubernetes", "upgrade_helm_chart", args);
}

/** Uninstall a Helm chart release */
export async function uninstallHelmChart(args = {}) {
  return callTool("kubernetes", "uninstall_helm_chart", args);
}

/** Manage Kubernetes nodes with cordon, drain, and uncordon operations */
export async function nodeManagement(args = {}) {
  return callTool("kubernetes", "node_management", args);
}

/** Forward a local port to a port on a Kubernetes resource */
export async function portForward(args = {}) {
  return callTool("kubernetes", "port_forward", args);
}

/** Stop a port-forward process */
export async function stopPortForward(args = {}) {
  return callTool("kubernetes", "stop_port_forward", args);
}

/** Execute a command in a Kubernetes pod or container and return the output. */
export async function execInPod(args = {}) {
  return callTool("kubernetes", "exec_in_pod", args);
}

/** List the API resources available in the cluster */
export async function listApiResources(args = {}) {
  return callTool("kubernetes", "list_api_resources", args);
}

/** Execute any kubectl command with the provided arguments and flags */
export async function kubectlGeneric(args = {}) {
  return callTool("kubernetes", "kubectl_generic", args);
}

/** Verify that the counterpart is still responsive and the connection is alive. */
export async function ping(args = {}) {
  return callTool("kubernetes", "ping", args);
}

/** Every tool by the server's own name. */
export const tools = {
  __proto__: null,
  ["cleanup"]: cleanup,
  ["kubectl_get"]: kubectlGet,
  ["kubectl_describe"]: kubectlDescribe,
  ["kubectl_apply"]: kubectlApply,
  ["kubectl_delete"]: kubectlDelete,
  ["kubectl_create"]: kubectlCreate,
  ["kubectl_logs"]: kubectlLogs,
  ["kubectl_scale"]: kubectlScale,
  ["kubectl_patch"]: kubectlPatch,
  ["kubectl_rollout"]: kubectlRollout,
  ["kubectl_context"]: kubectlContext,
  ["kubectl_reconnect"]: kubectlReconnect,
  ["explain_resource"]: explainResource,
  ["install_helm_chart"]: installHelmChart,
  ["upgrade_helm_chart"]: upgradeHelmChart,
  ["uninstall_helm_chart"]: uninstallHelmChart,
  ["node_management"]: nodeManagement,
  ["port_forward"]: portForward,
  ["stop_port_forward"]: stopPortForward,
  ["exec_in_pod"]: execInPod,
  ["list_api_resources"]: listApiResources,
  ["kubectl_generic"]: kubectlGeneric,
  ["ping"]: ping,
};
