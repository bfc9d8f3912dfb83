// One call in every form that a Node tree offers. Tests in a real sandbox put this text before their code.

export const FORMS = 4;

/** All with the case's arguments; results are not looked at. */
export async function callEveryWay(item, module, callTool) {
  const args = item.arguments;
  await module[item.node](args);
  await module.tools[item.tool](args);
  await callTool(item.server_id, item.tool, args);
  await callTool({ serverId: item.server_id, name: item.tool, arguments: args });
}
